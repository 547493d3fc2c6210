use super::*;
use crate::phase::{Pacing, Shape};
use crate::read::Way;

fn source(text: &str) -> Source {
    Source { name: "p.toml".to_owned(), text: text.to_owned() }
}

fn read(text: &str, overrides: &[&str]) -> Result<Plan, String> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Plan::read(&source(text), Path::new("folder"), &overrides).map_err(|error| error.to_string())
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.phases.iter().map(|phase| phase.name.as_str()).collect()
}

#[test]
fn every_scenario_is_a_plan() {
    for (name, _) in SCENARIOS {
        let plan = Plan::load(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plan.name, name);
        assert!(!plan.about.is_empty() && !plan.phases.is_empty(), "{name}");
        let mut phases = names(&plan);
        phases.sort_unstable();
        phases.dedup();
        assert_eq!(phases.len(), plan.phases.len(), "{name}: phases are told apart by their names");
        // One that is short enough for a test of its own.
        let backlog = plan.phases.iter().any(|phase| phase.backlog.is_some()).then(|| "backlog=1000".to_owned());
        let overrides: Vec<String> = ["duration=1s".to_owned()].into_iter().chain(backlog).collect();
        let quick = Plan::load(name, &overrides);
        assert!(quick.is_ok(), "{name}: {:?}", quick.err());
    }
}

#[test]
fn lists_are_swept_and_defaults_fit_where_they_mean_something() {
    let text = "rounds = 3\n[defaults]\nrate = [10, 20]\nduration = \"1s\"\n[[phase]]\nname = \"a\"\nkind = \"tail\"\ngroups = [1, 2]\n\
[[phase]]\nkind = \"consume\"\nbacklog = 100\n";
    let plan = read(text, &[]).unwrap();
    assert_eq!((plan.name.as_str(), plan.rounds), ("p", 3));
    let expected = ["a rate=10 groups=1", "a rate=10 groups=2", "a rate=20 groups=1", "a rate=20 groups=2", "consume"];
    assert_eq!(names(&plan), expected);
    assert_eq!(plan.phases[4].duration.as_secs(), 1);
    let changed = read(text, &["rate=7", "consumer_connections=3,4"]).unwrap();
    assert_eq!(names(&changed).len(), 2 * 2 + 2);
    let Pacing::Rate { rate, .. } = changed.phases[0].sends.as_ref().unwrap().pacing else { panic!() };
    assert_eq!(rate, 7);
}

#[test]
fn shapes_and_extras_come_through() {
    let text = "[[phase]]\nkind = \"send\"\nrate = 100\narrivals = \"ramp\"\nrate_end = 900\ntags = \"a,b\"\nproperties = \"x=1,y=2\"\n\
delay = \"1500ms\"\nflushed = false\ncompression = \"zlib\"\npayloads = \"p\"\n";
    let plan = read(text, &[]).unwrap();
    let sends = plan.phases[0].sends.as_ref().unwrap();
    assert!(matches!(sends.pacing, Pacing::Rate { rate: 100, shape: Shape::Ramp { to: 900 }, tick_us: 200 }));
    assert_eq!(sends.extras.tags, ["a", "b"]);
    assert_eq!(sends.extras.properties[1], ("y".to_owned(), "2".to_owned()));
    assert_eq!((sends.extras.delay_ms, sends.extras.unflushed, sends.extras.zlib), (Some(1500), true, true));
    assert!(matches!(&sends.body, crate::phase::BodyForm::Payloads(path) if path == Path::new("folder/p")));
}

#[test]
fn nonsense_is_told_with_its_place_and_a_hint() {
    for (text, place, part) in [
        ("nme = \"a\"\n", "p.toml:1:1", "did you mean name?"),
        ("rate = 5\n[[phase]]\nkind = \"send\"\n", "p.toml:1:1", "rate belongs into a [[phase]]"),
        ("name = \"a\"\n", "p.toml:1:1", "no phase"),
        ("[phase]\nkind = \"send\"\n", "p.toml:1:1", "two brackets"),
        ("[[phase]]\nrate = 5\n", "p.toml:1:1", "no kind"),
        ("[[phase]]\nkind = \"sned\"\n", "p.toml:2:8", "one of \"send\""),
        ("[[phase]]\nkind = \"send\"\nrat = 5\n", "p.toml:3:1", "did you mean rate?"),
        ("[[phase]]\nkind = \"send\"\nrate = \"fast\"\n", "p.toml:3:8", "rate cannot be \"fast\""),
        ("[[phase]]\nkind = \"send\"\nrate = [1, 0]\n", "p.toml:3:12", "rate cannot be 0"),
        ("[[phase]]\nkind = \"send\"\nrate = []\n", "p.toml:3:8", "sweep of nothing"),
        ("[[phase]]\nkind = \"send\"\ngroups = 2\n", "p.toml:3:1", "groups means nothing in a phase of kind send"),
        ("[[phase]]\nkind = \"send\"\nrate = 5 5\n", "p.toml:3:8", "this is no TOML"),
        ("rounds = 0\n[[phase]]\nkind = \"send\"\n", "p.toml:1:10", "from 1 to 1000"),
    ] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.starts_with(&format!("{place}: ")) && error.contains(part), "{text}\n{error}");
    }
}

#[test]
fn values_that_do_not_go_together_name_their_phase() {
    for (lines, part) in [
        ("kind = \"send\"\nrate = 5\nwindow = 2\n", "window and rate do not go together"),
        ("kind = \"send\"\narrivals = \"poisson\"\n", "arrivals needs a rate"),
        ("kind = \"consume\"\n", "needs a backlog"),
        ("kind = \"tail\"\nrate = 5\ncold_groups = 1\n", "a backlog are missing"),
        ("kind = \"send\"\nsize = 500\nsize_max = 100\n", "the second must be the larger"),
        ("kind = \"send\"\nbatch = 5\ndelay = 1\n", "cannot be delayed"),
        ("kind = \"send\"\nrate = 1000000\nduration = \"3h\"\n", "are possible"),
        ("kind = \"send\"\nproperties = \"x\"\n", "name=value"),
        ("kind = \"send\"\ncommit_share = 0.5\n", "transactions = true is missing"),
        ("kind = \"send\"\ntransactions = true\nbatch = 2\n", "cannot be half messages"),
        ("kind = \"send\"\ntransactions = true\ndelay = 1\n", "leave out delay or transactions"),
        ("kind = \"tail\"\nordered_keys = 5\nbacklog = 9\n", "leave out backlog or ordered_keys"),
        ("kind = \"send\"\ntopics = 200\nqueues = 1000\n", "131,072"),
        ("kind = \"send\"\nduration = 0\n", "more than nothing"),
        ("kind = \"tail\"\nconsumers = \"pop\"\npull_messages = 33\n", "32 messages at most"),
        ("kind = \"consume\"\nbacklog = 9\nconsumers = \"pop\"\ntopics = 513\n", "512 at most"),
        ("kind = \"tail\"\nconsumers = \"pop\"\ninvisible = \"2ms\"\n", "within 1 and 86400 s"),
        ("kind = \"tail\"\nconsumers = \"pop\"\nordered_keys = 5\n", "pops keep no order"),
        ("kind = \"tail\"\nconsumers = \"pop\"\nretry_share = 0.1\n", "not sent back"),
    ] {
        let error = read(&format!("[[phase]]\nname = \"x y\"\n{lines}"), &[]).unwrap_err();
        assert!(error.starts_with("p.toml: phase \"x y\": ") && error.contains(part), "{lines}\n{error}");
    }
    let error = read("[[phase]]\nkind = \"send\"\n", &["rte=5"]).unwrap_err();
    assert_eq!(error, "--set rte=5: a phase has no key rte\nhint: did you mean rate?");
}

#[test]
fn a_plan_that_is_not_there_is_told_with_what_is() {
    let error = Plan::load("satration", &[]).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.to_string().ends_with("hint: did you mean saturation?"), "{error}");
}

#[test]
fn the_keys_of_a_kind_of_load_reach_the_phase() {
    let text = "[[phase]]\nkind = \"tail\"\ntopics = 3\ntransactions = true\nretry_share = 0.5\n[[phase]]\nkind = \"send\"\n\
                ordered_keys = 7\nclient_duties = true\n";
    let plan = read(text, &[]).unwrap();
    let (first, second) = (&plan.phases[0], &plan.phases[1]);
    assert_eq!((first.topic.topics, first.reads.unwrap().retry_share), (3, Some(0.5)));
    assert_eq!(first.sends.as_ref().unwrap().extras.commit_share, Some(1.0));
    // Who sends messages back must be known to the broker.
    assert!(first.has_duties && second.has_duties);
    assert_eq!(second.sends.as_ref().unwrap().extras.ordered_keys, Some(7));
    let error = read("[[phase]]\nkind = \"send\"\nretry_share = 0.5\n", &[]).unwrap_err();
    assert!(error.contains("p.toml:3:1: retry_share means nothing in a phase of kind send"), "{error}");
}

#[test]
fn a_single_command_takes_the_keys_of_plans() {
    let one = |kind, options: &[&str], overrides: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        single(kind, &texts(options), &texts(overrides), &TopicForm::own()).map_err(|error| error.to_string())
    };
    let phases = one("send", &["size=100"], &["size=200,300", "keys=true"]).unwrap();
    assert_eq!(phases.len(), 2);
    assert!(phases[0].sends.as_ref().unwrap().extras.keys);
    let tail = one("tail", &[], &["consumers=pull,pop"]).unwrap();
    assert_eq!([0, 1].map(|index: usize| tail[index].reads.unwrap().way), [Way::Pull, Way::Pop]);
    assert_eq!((tail[0].config().get("consumers"), tail[1].config()["consumers"].as_str()), (None, Some("pop")));
    assert!(one("send", &[], &["groups=2"]).unwrap_err().contains("nothing to `bench send`"));
    assert!(one("send", &["window=0"], &[]).unwrap_err().starts_with("--window=0: window cannot be 0"));
    assert!(one("consume", &[], &[]).unwrap_err().contains("needs a backlog"));
}
