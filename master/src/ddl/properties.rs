//! Properties of tables: given as texts, kept as what they mean.

use std::collections::BTreeMap;

use proto::kudu::TableExtraConfigPb;

use crate::fault::Fault;

/// Sets properties; an empty text takes one away.
pub(super) fn set<'a>(
    config: &mut TableExtraConfigPb,
    properties: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<(), Fault> {
    for (property, text) in properties {
        let refused = |property| Fault::BadExtraConfig { property, value: text.clone() };
        match property.as_str() {
            HISTORY_MAX_AGE_SEC => {
                config.history_max_age_sec = parse(text).ok_or_else(|| refused(HISTORY_MAX_AGE_SEC))?;
            }
            MAINTENANCE_PRIORITY => {
                config.maintenance_priority = parse(text).ok_or_else(|| refused(MAINTENANCE_PRIORITY))?;
            }
            DISABLE_COMPACTION => {
                let text = text.to_ascii_lowercase();
                config.disable_compaction = parse(&text).ok_or_else(|| refused(DISABLE_COMPACTION))?;
            }
            other => return Err(Fault::UnknownExtraConfig(other.to_owned())),
        }
    }
    Ok(())
}

/// `None`: not of this type. `Some(None)`: empty, no value.
fn parse<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

/// The properties that are set, as a real master tells them.
pub(crate) fn told(config: &TableExtraConfigPb) -> BTreeMap<String, String> {
    let number = |value: Option<i32>| value.map(|value| value.to_string());
    // A real master prints booleans so, although it takes words only.
    let switch = config.disable_compaction.map(|value| i32::from(value).to_string());
    let all = [
        (HISTORY_MAX_AGE_SEC, number(config.history_max_age_sec)),
        (MAINTENANCE_PRIORITY, number(config.maintenance_priority)),
        (DISABLE_COMPACTION, switch),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// How long old versions of rows are kept, in seconds.
const HISTORY_MAX_AGE_SEC: &str = "kudu.table.history_max_age_sec";
/// A higher one is flushed and compacted first.
const MAINTENANCE_PRIORITY: &str = "kudu.table.maintenance_priority";
/// `true`: never compacted.
const DISABLE_COMPACTION: &str = "kudu.table.disable_compaction";

#[cfg(test)]
mod tests {
    use super::*;

    fn set_one(config: &mut TableExtraConfigPb, property: &str, value: &str) -> Result<(), String> {
        let properties = [(property.to_owned(), value.to_owned())];
        let set = set(config, properties.iter().map(|(name, value)| (name, value)));
        set.map_err(|fault| fault.to_string())
    }

    #[test]
    fn properties_are_known_and_have_values_of_their_type() {
        let mut config = TableExtraConfigPb::default();
        set_one(&mut config, HISTORY_MAX_AGE_SEC, "5").unwrap();
        set_one(&mut config, DISABLE_COMPACTION, "TRUE").unwrap();
        set_one(&mut config, MAINTENANCE_PRIORITY, "-2").unwrap();
        let expected = [(DISABLE_COMPACTION, "1"), (HISTORY_MAX_AGE_SEC, "5"), (MAINTENANCE_PRIORITY, "-2")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(told(&config), BTreeMap::from(expected));
        set_one(&mut config, HISTORY_MAX_AGE_SEC, "").unwrap();
        assert_eq!(config.history_max_age_sec, None, "an empty text takes it away");
        for (property, value, text) in [
            (HISTORY_MAX_AGE_SEC, "five", "unable to parse kudu.table.history_max_age_sec: five"),
            (DISABLE_COMPACTION, "1", "unable to parse kudu.table.disable_compaction: 1"),
            ("foo", "5", "invalid extra configuration property: foo"),
        ] {
            assert_eq!(set_one(&mut config, property, value).unwrap_err(), text);
        }
    }
}
