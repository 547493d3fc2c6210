//! Settings of consumer groups: made, changed, read and deleted by tools (200, 201, 207, 225, 352, 353).

use std::rc::Rc;

use remoting::body::group::{GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupList};
use remoting::code::ResponseCode;
use remoting::header::group::{
    DeleteSubscriptionGroup, GetAllSubscriptionGroupConfigResponse, GroupRequest, UpdateGroupForbidden,
};
use remoting::json::{self, JsonError};
use remoting::name::{self, NameError};

use crate::call::{Answer, Outcome, Refusal, Request};
use crate::core::Core;
use crate::group::config_table::ConfigChange;
use crate::group::{self, GroupConfigOwner};
use crate::topic::{TOPIC_QUEUES_MAX, attributes};

/// Makes or replaces one group (200); anywhere. A setting that the body lacks has its usual value.
pub(crate) async fn update_group(core: Rc<Core>, request: Request) -> Outcome {
    let config: SubscriptionGroupConfig = json::decode(&request.command.body).map_err(|error| wrong_body(&error))?;
    put(&core, vec![config]).await
}

/// Makes or replaces several groups (225); anywhere. All are stored or none.
pub(crate) async fn update_groups(core: Rc<Core>, request: Request) -> Outcome {
    let list: SubscriptionGroupList = json::decode(&request.command.body).map_err(|error| wrong_body(&error))?;
    put(&core, list.group_config_list).await
}

async fn put(core: &Rc<Core>, mut configs: Vec<SubscriptionGroupConfig>) -> Outcome {
    for config in &mut configs {
        name::check_group(&config.group_name).map_err(|error| wrong_name(&error))?;
        // What a request has is a modification; what is stored has none of its signs.
        let current = core.group_configs.get(&config.group_name);
        let current = current.as_ref().map(|config| &config.attributes);
        config.attributes =
            attributes::modify(attributes::OF_GROUPS, current, &config.attributes).map_err(|error| {
                Refusal::new(ResponseCode::SYSTEM_ERROR, format!("group {}: {error}", config.group_name))
            })?;
        if !(0..=TOPIC_QUEUES_MAX).contains(&config.retry_queue_nums) {
            let remark = format!(
                "retryQueueNums {} of group {} is not between 0 and {TOPIC_QUEUES_MAX}",
                config.retry_queue_nums, config.group_name
            );
            return Err(Refusal::new(ResponseCode::INVALID_PARAMETER, remark));
        }
    }
    GroupConfigOwner::change(core, configs.into_iter().map(ConfigChange::Put).collect()).await?;
    Ok(Answer::success())
}

/// All groups (201); on the tables' core. They are answered at once, so there is one page.
pub(crate) async fn all_groups(core: Rc<Core>, _request: Request) -> Outcome {
    let body = core.tables().group_configs.to_body();
    let group_count = i32::try_from(body.subscription_group_table.len()).unwrap_or(i32::MAX);
    let header = GetAllSubscriptionGroupConfigResponse { group_count };
    Ok(Answer::success().with_fields(header.to_fields()).with_body(json::encode(&body)))
}

/// One group (352); anywhere.
pub(crate) async fn one_group(core: Rc<Core>, request: Request) -> Outcome {
    let GroupRequest { group } = GroupRequest::decode(&request.command.fields)?;
    let config = core.group_configs.get(&group).ok_or_else(|| {
        let remark = format!("group {group} does not exist on this broker: it is made by its first heartbeat or pull");
        Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    })?;
    Ok(Answer::success().with_body(json::encode(&*config)))
}

/// Deletes a group (207), and its offsets where wanted; anywhere. One that is not there is as good as deleted.
pub(crate) async fn delete_group(core: Rc<Core>, request: Request) -> Outcome {
    let DeleteSubscriptionGroup { group_name: group, clean_offset } =
        DeleteSubscriptionGroup::decode(&request.command.fields)?;
    GroupConfigOwner::change(&core, vec![ConfigChange::Remove(group.detached())]).await?;
    if clean_offset {
        group::delete_group_offsets(&core, &group).await?;
    }
    core.on_each(move |core| {
        let group = group.clone();
        async move { core.stats.forget_group(&group) }
    })
    .await;
    Ok(Answer::success())
}

/// Forbids or allows a group to read a topic, or tells whether it may (353); anywhere.
pub(crate) async fn update_forbidden(core: Rc<Core>, request: Request) -> Outcome {
    let UpdateGroupForbidden { group, topic, readable } = UpdateGroupForbidden::decode(&request.command.fields)?;
    if let Some(readable) = readable {
        name::check_group(&group).map_err(|error| wrong_name(&error))?;
        name::check_topic(&topic).map_err(|error| wrong_name(&error))?;
        let change = ConfigChange::SetReadable { group: group.detached(), topic: topic.detached(), readable };
        GroupConfigOwner::change(&core, vec![change]).await?;
    }
    let readable = !core.group_configs.is_read_forbidden(&group, &topic);
    Ok(Answer::success().with_body(json::encode(&GroupForbidden { group, readable, topic })))
}

fn wrong_name(error: &NameError) -> Refusal {
    Refusal::new(ResponseCode::INVALID_PARAMETER, error.to_string())
}

fn wrong_body(error: &JsonError) -> Refusal {
    Refusal::new(ResponseCode::SYSTEM_ERROR, error.to_string())
}
