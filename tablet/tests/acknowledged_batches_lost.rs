//! Tablets on a disk that fails at each operation of a script, then opened again: what was acknowledged is there, and what
//! was not is there whole or not at all.

mod common;

use common::storage::{content, reopen, row, table};
use common::{NOW, batch, open};
use proptest::prelude::*;
use schema::{OpKind, PartialRow, Schema, Timestamp, Value};
use tablet::backend::{Fault, Faulty, Memory};
use tablet::{SyncPolicy, Tablet};

type Batch = Vec<(OpKind, i32, Option<i32>, Option<String>)>;

#[derive(Clone, Debug)]
enum Step {
    Write(Batch),
    Flush,
    Compact,
}
type Rows = Vec<Vec<Option<Value>>>;

fn script() -> impl Strategy<Value = Vec<Step>> {
    let kinds = [
        OpKind::Insert,
        OpKind::InsertIgnore,
        OpKind::Update,
        OpKind::Upsert,
        OpKind::UpsertIgnore,
        OpKind::Delete,
        OpKind::DeleteIgnore,
    ];
    let value = proptest::option::of(-9..9i32);
    let op = (proptest::sample::select(kinds.to_vec()), 0..8i32, value, proptest::option::of("[a-z]{0,30}"));
    let write = proptest::collection::vec(op, 1..6).prop_map(Step::Write);
    let step = proptest::strategy::Union::new_weighted(vec![
        (6, write.boxed()),
        (3, Just(Step::Flush).boxed()),
        (1, Just(Step::Compact).boxed()),
    ]);
    proptest::collection::vec(step, 1..14)
}

fn rows(schema: &Schema, batch: &Batch) -> Vec<(OpKind, PartialRow)> {
    batch.iter().map(|(kind, key, value, text)| row(schema, *kind, *key, *value, text.as_deref())).collect()
}

/// What must be found again.
struct Life {
    /// After each acknowledged batch: its time, and the rows then.
    acknowledged: Vec<(Timestamp, Rows)>,
    /// What would be there with the batch that failed.
    with_failed: Option<Rows>,
}

/// Runs the script until a batch fails; `reference` does the same without a log. A flush that fails changes nothing.
fn live(tablet: &Tablet, reference: &Tablet, script: &[Step]) -> Life {
    let schema = table();
    let mut life = Life { acknowledged: Vec::new(), with_failed: None };
    for step in script {
        let step = match step {
            Step::Write(batch) => batch,
            Step::Flush => {
                let _ = tablet.flush(Timestamp::MIN);
                continue;
            }
            Step::Compact => {
                let _ = tablet.compact(Timestamp::MIN);
                continue;
            }
        };
        let rows = rows(&schema, step);
        let done = batch(tablet, &rows);
        let Ok(outcome) = done else {
            let shown = content(tablet, None);
            assert_eq!(shown, content(reference, None), "what failed is not shown");
            assert!(batch(tablet, &rows).is_err(), "nothing is taken after a failure");
            batch(reference, &rows).unwrap();
            life.with_failed = Some(content(reference, None));
            break;
        };
        let expected = batch(reference, &rows).unwrap();
        assert_eq!((&outcome.row_errors, outcome.metrics), (&expected.row_errors, expected.metrics));
        life.acknowledged.push((outcome.timestamp.next(), content(reference, None)));
    }
    life
}

/// Opens what is left and compares; `most` is the number of batches that must be there.
fn check(memory: Memory, life: &Life, sync: SyncPolicy) {
    let tablet = reopen(memory.clone(), sync).unwrap();
    let found = content(&tablet, None);
    let empty = Rows::new();
    let last = life.acknowledged.last().map_or(&empty, |(_, rows)| rows);
    assert!(&found == last || Some(&found) == life.with_failed.as_ref(), "{found:?} is not {last:?}");
    for (snapshot, rows) in &life.acknowledged {
        assert_eq!(&content(&tablet, Some(*snapshot)), rows, "the snapshot at {snapshot}");
    }
    // It goes on, and the next start finds both lives.
    let more = rows(&table(), &vec![(OpKind::Upsert, 100, Some(1), None)]);
    let timestamp = batch(&tablet, &more).unwrap().timestamp;
    assert!(life.acknowledged.last().is_none_or(|(before, _)| *before <= timestamp));
    let expected = content(&tablet, None);
    assert_eq!(expected.len(), found.len() + 1);
    drop(tablet);
    assert_eq!(content(&reopen(memory.after_kill(), sync).unwrap(), None), expected);
    if sync == SyncPolicy::Always {
        let cut = memory.after_power_cut(|_| 0);
        assert_eq!(
            content(&reopen(cut, sync).unwrap(), None),
            expected,
            "what the start found was kept, too"
        );
    }
}

/// `PROPTEST_CASES`, or what takes a few seconds.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_fault_at_any_operation_loses_an_acknowledged_batch_or_shows_half_of_another(
        script in script(), torn in 1..255u8
    ) {
        for fault in [Fault::Error, Fault::Death, Fault::Torn(torn)] {
            for at in 0.. {
                let memory = Memory::new();
                let faulty = Faulty::new(memory.clone(), at, fault);
                let tablet = reopen(faulty.clone(), SyncPolicy::Always).unwrap();
                let life = live(&tablet, &open(table()), &script);
                check(memory.after_kill(), &life, SyncPolicy::Always);
                check(memory.after_power_cut(|_| 0), &life, SyncPolicy::Always);
                check(memory.after_power_cut(|most| most * usize::from(torn) / 256), &life, SyncPolicy::Always);
                if faulty.operations() <= at {
                    let writes = script.iter().filter(|step| matches!(step, Step::Write(_))).count();
                    prop_assert_eq!(life.acknowledged.len(), writes);
                    break;
                }
            }
        }
    }

    #[test]
    fn without_syncs_a_kill_loses_nothing_and_a_power_cut_leaves_whole_batches(
        script in script(), kept in any::<u8>()
    ) {
        let memory = Memory::new();
        let tablet = reopen(memory.clone(), SyncPolicy::System).unwrap();
        let life = live(&tablet, &open(table()), &script);
        check(memory.after_kill(), &life, SyncPolicy::System);
        // Names last, as on file systems with a journal; bytes of the last segment only in part.
        tablet::backend::Backend::sync_folder(&memory, std::path::Path::new("")).unwrap();
        let names = tablet::backend::Backend::list(&memory, std::path::Path::new("")).unwrap();
        let segments = names.iter().filter(|name| name.ends_with(".log")).count();
        let mut segment = 0;
        let cut = memory.after_power_cut(|most| {
            segment += 1;
            if segment == segments { most * usize::from(kept) / 256 } else { most }
        });
        let found = content(&reopen(cut, SyncPolicy::System).unwrap(), None);
        prop_assert!(found.is_empty() || life.acknowledged.iter().any(|(_, rows)| *rows == found));
    }
}

#[test]
fn threads_that_write_while_the_disk_fails_lose_nothing_acknowledged() {
    for at in [0, 3, 20, 77, 150] {
        let memory = Memory::new();
        let faulty = Faulty::new(memory.clone(), at, Fault::Torn(128));
        let tablet = reopen(faulty, SyncPolicy::Always).unwrap();
        let schema = table();
        let acknowledged: Vec<i32> = std::thread::scope(|scope| {
            let write = |thread: i32| {
                let (tablet, schema) = (&tablet, &schema);
                scope.spawn(move || {
                    let keys = (0..100).map(move |i| thread * 1000 + i);
                    let one =
                        |key: &i32| batch(tablet, &[row(schema, OpKind::Insert, *key, None, None)]).is_ok();
                    keys.take_while(one).collect::<Vec<_>>()
                })
            };
            let threads: Vec<_> = (0..4).map(write).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let keys = |tablet: &Tablet| -> Vec<i32> {
            let key = |row: Vec<Option<Value>>| match row[0] {
                Some(Value::Int32(key)) => key,
                ref other => panic!("{other:?}"),
            };
            content(tablet, None).into_iter().map(key).collect()
        };
        let shown = keys(&tablet);
        let found = keys(&reopen(memory.after_power_cut(|_| 0), SyncPolicy::Always).unwrap());
        assert!(acknowledged.iter().all(|key| shown.contains(key) && found.contains(key)), "at {at}");
        assert!(shown.iter().all(|key| found.contains(key)), "at {at}: what was shown is there");
    }
}

#[test]
fn a_clock_that_went_back_gives_no_timestamp_twice() {
    let memory = Memory::new();
    let tablet = reopen(memory.clone(), SyncPolicy::Always).unwrap();
    let first = batch(&tablet, &[row(&table(), OpKind::Insert, 1, None, None)]).unwrap().timestamp;
    assert_eq!(first.physical_micros(), NOW);
    drop(tablet);
    let tablet = reopen(memory, SyncPolicy::Always).unwrap();
    let second = batch(&tablet, &[row(&table(), OpKind::Insert, 2, None, None)]).unwrap().timestamp;
    assert!(second > first);
}
