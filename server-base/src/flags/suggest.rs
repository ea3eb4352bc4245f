//! The name that was probably meant.

/// The candidate with the fewest edits from `typed`, if they are few for its length.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).clamp(1, 5);
    let near = candidates.map(|name| (distance(typed, name, limit), name)).min()?;
    (near.0 <= limit).then_some(near.1)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b`; something above `limit` if more.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_seen_through() {
        let names = ["rpc_bind_addresses", "rpc_num_service_threads", "v", "heartbeat_interval_ms"];
        let near = |typed| nearest(typed, names.into_iter());
        assert_eq!(near("rpc_bind_adresses"), Some("rpc_bind_addresses"));
        assert_eq!(near("rpc_bind_address"), Some("rpc_bind_addresses"));
        assert_eq!(near("haertbeat_interval_ms"), Some("heartbeat_interval_ms"));
        assert_eq!(near("completely_different_thing"), None);
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b, 5), edits, "{a} {b}");
            assert_eq!(distance(b, a, 5), edits, "{b} {a}");
        }
    }
}
