//! Each target over its corpus, and over changes of it.

use std::path::{Path, PathBuf};

use fuzz_targets::TARGETS;

/// Changed inputs a target, if `FUZZ_CHANGED` does not say; with all targets some seconds without optimisation.
const CHANGED: u64 = 2000;
/// If `FUZZ_SEED` does not say.
const SEED: u64 = 4;

fn setting(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Changes that noise alone would not find: bits, runs, lengths, pieces of other inputs.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut fastrand::Rng) {
    let at = random.usize(..=bytes.len());
    let end = (at + random.usize(1..9)).min(bytes.len());
    match random.u8(..8) {
        0 => bytes[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.u8(..8)),
        1 => bytes.insert(at, random.u8(..)),
        2 => drop(bytes.drain(at..end)),
        3 if random.u8(..4) == 0 => bytes.truncate(at),
        4 => {
            let value = *random.choice([0, 1, 0x7f, 0x80, 0xff].iter()).unwrap_or(&0);
            bytes[at..end].fill(value);
        }
        5 => {
            let copy = bytes[at..end].to_vec();
            let to = random.usize(..=bytes.len());
            bytes.splice(to..to, copy);
        }
        6 => {
            let Some(other) = random.choice(others.iter()) else { return };
            let from = random.usize(..=other.len());
            let until = (from + random.usize(..64)).min(other.len());
            bytes.splice(at..at, other[from..until].iter().copied());
        }
        _ => bytes[at..end]
            .iter_mut()
            .take(1)
            .for_each(|byte| *byte = byte.wrapping_add_signed(random.i8(-2..3))),
    }
}

/// One test, so that the name of a target and the number of the input stand in what it says when it fails.
#[test]
fn every_target_reads_its_corpus_and_changes_of_it() {
    let only = std::env::var("FUZZ_TARGET").ok();
    for target in TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name)) {
        let corpus = corpus(target.name);
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        let mut random = fastrand::Rng::with_seed(setting("FUZZ_SEED", SEED));
        let changed = std::iter::repeat_with(|| {
            let mut bytes = random.choice(corpus.iter()).cloned().unwrap_or_default();
            (0..random.usize(1..5)).for_each(|_| change(&mut bytes, &corpus, &mut random));
            bytes
        });
        for (number, bytes) in
            corpus.iter().cloned().chain(changed.take(setting("FUZZ_CHANGED", CHANGED) as usize)).enumerate()
        {
            let read = std::panic::catch_unwind(|| (target.run)(&bytes));
            assert!(read.is_ok(), "{} fails on its input {number}: {bytes:02x?}", target.name);
        }
    }
}

#[test]
fn each_target_has_its_program_for_the_fuzzer() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let mut names: Vec<_> = std::fs::read_dir(programs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<_> = TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    expected.sort();
    assert_eq!(names, expected);
}
