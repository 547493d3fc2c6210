//! Headers of calls about consumer groups (201, 207, 352, 353).

use crate::header::header;
use crate::text::Text;

header! {
    /// Header of calls that name a group and nothing else: 352 and 343.
    GroupRequest {
        group: Text = required "group",
    }
}

header! {
    /// Header of 201.
    GetAllSubscriptionGroupConfig {
        group_sequence: Option<i32> = optional "groupSeq",
        data_version: Option<Text> = optional "dataVersion",
        group_count_max: Option<i32> = optional "maxGroupNum",
    }
}

header! {
    /// Answer to 201.
    GetAllSubscriptionGroupConfigResponse {
        group_count: i32 = required "totalGroupNum",
    }
}

header! {
    /// Header of 207.
    DeleteSubscriptionGroup {
        group_name: Text = required "groupName",
        clean_offset: bool = or(false) "cleanOffset",
    }
}

header! {
    /// Header of 353.
    UpdateGroupForbidden {
        group: Text = required "group",
        topic: Text = required "topic",
        readable: Option<bool> = optional "readable",
    }
}
