//! Queues that begin and end anywhere in their files.

use runtime::file::TempFolder;

use super::*;

const FILE_UNITS: usize = 500;

fn unit(offset: u64, bytes: u32) -> [u8; 20] {
    let mut unit = [0; 20];
    unit[..8].copy_from_slice(&offset.to_be_bytes());
    unit[8..12].copy_from_slice(&bytes.to_be_bytes());
    unit[12..].copy_from_slice(&(offset as i64 * 2).to_be_bytes());
    unit
}

/// Files with units from `first` on; the record of offset N lies at 100 N.
fn queue(folder: &Path, first: u64, limit: u64) -> ConsumeQueue {
    let path = folder.join("T/7");
    fs::create_dir_all(&path).expect("a folder");
    let mut file = first / FILE_UNITS as u64 * FILE_UNITS as u64;
    while file < limit.max(1) {
        let mut bytes = vec![0; FILE_UNITS * 20];
        for place in 0..FILE_UNITS as u64 {
            let at = file + place;
            let content = match at {
                _ if at < first => unit(0, FILLER_BYTES),
                _ if at < limit => unit(100 * at, 100),
                _ => continue,
            };
            bytes[place as usize * 20..][..20].copy_from_slice(&content);
        }
        fs::write(path.join(format!("{:020}", file * 20)), bytes).expect("written");
        file += FILE_UNITS as u64;
    }
    let mut all = ConsumeQueues::open(folder).expect("queues");
    all.topics.remove("T").expect("the topic").remove(&7).expect("the queue")
}

#[test]
fn units_are_found_and_counted() {
    for (first, limit) in
        [(0, 0), (0, 1), (0, 203), (0, 204), (0, 500), (0, 501), (700, 700), (700, 1999), (1000, 1500)]
    {
        let folder = TempFolder::new("consume-queue");
        let mut queue = queue(folder.path(), first, limit);
        assert_eq!(queue.limit(), limit, "{first} to {limit}");
        for at in [0, first.saturating_sub(1), first, first + 1, limit.saturating_sub(1), limit, limit + 1, 5000] {
            let expected =
                (first..limit).contains(&at).then(|| Unit { offset: 100 * at, bytes: 100, tags_code: 200 * at as i64 });
            assert_eq!(queue.unit(at).expect("readable"), expected, "{at} of {first} to {limit}");
        }
        for log_min in [0, 100 * first, 100 * first + 1, 100 * limit] {
            let expected = log_min.div_ceil(100).clamp(first.min(limit), limit);
            assert_eq!(queue.first_from(log_min).expect("readable"), expected, "{log_min} of {first} to {limit}");
        }
        queue.cut(100 * limit.saturating_sub(2) + 50).expect("readable");
        assert_eq!(queue.limit(), limit.saturating_sub(2).max(first.min(limit)), "{first} to {limit}, cut");
    }
}

#[test]
fn what_is_no_queue_has_no_units() {
    let folder = TempFolder::new("consume-queue");
    assert!(ConsumeQueues::open(&folder.path().join("none")).expect("no queues").topics.is_empty());
    let path = folder.path().join("T/0");
    fs::create_dir_all(&path).expect("a folder");
    fs::create_dir_all(folder.path().join("T/other")).expect("a folder");
    for (name, content) in [("00000000000000000000", &[][..]), ("notes", b"x")] {
        fs::write(path.join(name), content).expect("written");
    }
    let mut queues = ConsumeQueues::open(folder.path()).expect("queues");
    let queue = queues.get("T", 0).expect("a queue");
    assert_eq!((queue.first(), queue.limit(), queue.unit(0).expect("readable")), (0, 0, None));
    assert_eq!(queues.known().expect("readable"), 0);
}
