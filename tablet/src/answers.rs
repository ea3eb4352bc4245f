//! What named calls were answered: a client that comes again with one, even after a start, gets the answer it had.
//!
//! The tablet keeps them, not the server: who finds the tablet finds all that was done to it, also while its log is read anew.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use schema::Timestamp;

use crate::binary::{Cut, Rest, put_bytes};
use crate::write::outcome::{RowError, RowErrorKind, WriteMetrics, WriteOutcome};
use crate::write::request::RequestKey;

/// The newest answers by client.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    clients: HashMap<String, Client>,
}

#[derive(Debug, Default)]
struct Client {
    first_incomplete: i64,
    newest: Timestamp,
    /// No call has a greater number.
    greatest: i64,
    calls: VecDeque<(i64, WriteOutcome)>,
}

impl Answers {
    pub(crate) fn note(&mut self, request: RequestKey<'_>, outcome: &WriteOutcome) {
        let RequestKey { client_id, seq_no, first_incomplete_seq_no } = request;
        if !self.clients.contains_key(client_id) {
            self.clients.insert(client_id.to_owned(), Client::default());
        }
        let Some(client) = self.clients.get_mut(client_id) else { return };
        client.first_incomplete = client.first_incomplete.max(first_incomplete_seq_no);
        client.newest = outcome.timestamp;
        client.greatest = client.greatest.max(seq_no);
        client.calls.push_back((seq_no, outcome.clone()));
        // Calls come nearly in the order of their numbers.
        while client.calls.len() > MOST_CALLS
            || client.calls.front().is_some_and(|(seq_no, _)| *seq_no < client.first_incomplete)
        {
            client.calls.pop_front();
        }
    }

    /// Forgets clients that nobody waits for any more.
    pub(crate) fn expire(&mut self, newest: Timestamp) {
        let oldest = newest.physical_micros().saturating_sub(REMEMBERED.as_micros() as u64);
        self.clients.retain(|_, client| client.newest.physical_micros() >= oldest);
    }

    /// What a call was answered, if that is remembered.
    pub(crate) fn find(&self, request: RequestKey<'_>) -> Option<&WriteOutcome> {
        let client = self.clients.get(request.client_id)?;
        // Almost all calls are new: they need no look at those that are remembered.
        if request.seq_no > client.greatest {
            return None;
        }
        // Who comes again mostly does so at once.
        client.calls.iter().rev().find(|(seq_no, _)| *seq_no == request.seq_no).map(|(_, outcome)| outcome)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.clients.len() as u32).to_le_bytes().to_vec();
        for (client_id, client) in &self.clients {
            put_bytes(&mut bytes, client_id.as_bytes());
            bytes.extend_from_slice(&client.first_incomplete.to_le_bytes());
            bytes.extend_from_slice(&(client.calls.len() as u32).to_le_bytes());
            for (seq_no, outcome) in &client.calls {
                bytes.extend_from_slice(&seq_no.to_le_bytes());
                put_outcome(&mut bytes, outcome);
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Cut> {
        let (mut rest, mut answers) = (Rest(bytes), Self::default());
        for _ in 0..rest.u32()? {
            let client_id = rest.text()?;
            let first_incomplete_seq_no = rest.i64()?;
            for _ in 0..rest.u32()? {
                let seq_no = rest.i64()?;
                let outcome = outcome(&mut rest)?;
                answers.note(RequestKey { client_id, seq_no, first_incomplete_seq_no }, &outcome);
            }
        }
        Ok(answers)
    }
}

fn put_outcome(bytes: &mut Vec<u8>, outcome: &WriteOutcome) {
    bytes.extend_from_slice(&outcome.timestamp.0.to_le_bytes());
    let mut metrics = outcome.metrics;
    for count in counts(&mut metrics) {
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    bytes.extend_from_slice(&(outcome.row_errors.len() as u32).to_le_bytes());
    for RowError { index, kind } in &outcome.row_errors {
        bytes.extend_from_slice(&index.to_le_bytes());
        let (number, text) = match kind {
            RowErrorKind::AlreadyPresent => (PRESENT, String::new()),
            RowErrorKind::NotFound => (NOT_FOUND, String::new()),
            RowErrorKind::Immutable { column } => (IMMUTABLE, column.clone()),
            other => (INVALID, other.to_string()),
        };
        bytes.push(number);
        put_bytes(bytes, text.as_bytes());
    }
}

fn outcome(rest: &mut Rest<'_>) -> Result<WriteOutcome, Cut> {
    let timestamp = Timestamp(rest.u64()?);
    let mut metrics = WriteMetrics::default();
    for count in counts(&mut metrics) {
        *count = rest.u64()?;
    }
    let mut row_errors = Vec::new();
    for _ in 0..rest.u32()? {
        let index = rest.u32()?;
        let (number, text) = (rest.u8()?, rest.text()?);
        let kind = match number {
            PRESENT => RowErrorKind::AlreadyPresent,
            NOT_FOUND => RowErrorKind::NotFound,
            IMMUTABLE => RowErrorKind::Immutable { column: text.to_owned() },
            _ => RowErrorKind::Remembered { message: text.to_owned() },
        };
        row_errors.push(RowError { index, kind });
    }
    Ok(WriteOutcome { timestamp, row_errors, metrics })
}

/// In the order of the file.
fn counts(metrics: &mut WriteMetrics) -> [&mut u64; 8] {
    let WriteMetrics {
        successful_inserts,
        insert_ignore_errors,
        successful_upserts,
        upsert_ignore_errors,
        successful_updates,
        update_ignore_errors,
        successful_deletes,
        delete_ignore_errors,
    } = metrics;
    [
        successful_inserts,
        insert_ignore_errors,
        successful_upserts,
        upsert_ignore_errors,
        successful_updates,
        update_ignore_errors,
        successful_deletes,
        delete_ignore_errors,
    ]
}

const PRESENT: u8 = 0;
const NOT_FOUND: u8 = 1;
const IMMUTABLE: u8 = 2;
const INVALID: u8 = 3;
/// Kudu forgets a client after as long.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Of one client that never says which answers it has got.
const MOST_CALLS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(at: u64) -> WriteOutcome {
        let row_errors = vec![
            RowError { index: 1, kind: RowErrorKind::AlreadyPresent },
            RowError { index: 2, kind: RowErrorKind::Immutable { column: "c".into() } },
            RowError { index: 3, kind: RowErrorKind::Remembered { message: "no".into() } },
        ];
        let metrics =
            WriteMetrics { successful_inserts: 5, delete_ignore_errors: 6, ..WriteMetrics::default() };
        WriteOutcome { timestamp: Timestamp::new(at, 0), row_errors, metrics }
    }

    fn told(answers: &Answers) -> Vec<(String, i64, WriteOutcome)> {
        let calls = ["a", "b"].into_iter().flat_map(|client| (0..10).map(move |seq_no| (client, seq_no)));
        let found = |(client_id, seq_no): (&str, i64)| {
            let request = RequestKey { client_id, seq_no, first_incomplete_seq_no: -1 };
            Some((client_id.to_owned(), seq_no, answers.find(request)?.clone()))
        };
        calls.filter_map(found).collect()
    }

    #[test]
    fn answers_last_until_the_client_has_them_or_is_gone() {
        let mut answers = Answers::default();
        let mut note = |client_id, seq_no, first_incomplete_seq_no, at| {
            answers.note(RequestKey { client_id, seq_no, first_incomplete_seq_no }, &outcome(at));
        };
        note("a", 1, 1, 10);
        note("a", 2, 1, 11);
        note("a", 3, 3, 12);
        note("b", 7, -1, 1_000_000_000);
        let expected = vec![("a".into(), 3, outcome(12)), ("b".into(), 7, outcome(1_000_000_000))];
        assert_eq!(told(&answers), expected);
        let bytes = answers.encode();
        assert_eq!(told(&Answers::decode(&bytes).unwrap()), expected);
        (0..bytes.len()).for_each(|len| assert!(Answers::decode(&bytes[..len]).is_err()));
        answers.expire(Timestamp::new(1_000_000_000, 0));
        assert_eq!(told(&answers), expected[1..]);
    }
}
