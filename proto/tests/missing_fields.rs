//! Fear: an incomplete request reaches a handler, or a complete one is refused.

use proptest::prelude::*;
use prost::Message;
use proto::Method;
use proto::kudu::master::{CreateTableRequestPb, TableIdentifierPb};
use proto::kudu::{ColumnSchemaPb, DataType, SchemaPb, app_status_pb, column_predicate_pb};
use proto::kudu::{tablet, tserver};
use proto::methods::{consensus_service, master_service, tablet_server_service};
use proto::required::{FieldRule, Kind, MessageTable, check};

fn missing(table: &MessageTable, bytes: &[u8]) -> String {
    check(table, bytes).map_or_else(|missing| missing.to_string(), |()| String::new())
}

#[test]
fn an_empty_get_table_locations_lacks_its_table() {
    assert_eq!(missing(master_service::GetTableLocations::REQUEST, &[]), "table");
}

#[test]
fn an_empty_table_identifier_is_enough() {
    let request = proto::kudu::master::GetTableLocationsRequestPb {
        table: TableIdentifierPb::default(),
        ..Default::default()
    };
    assert_eq!(request.encode_to_vec(), [0x0a, 0x00]);
    assert_eq!(missing(master_service::GetTableLocations::REQUEST, &request.encode_to_vec()), "");
}

#[test]
fn all_missing_fields_are_named_from_the_outside_in() {
    // name is there; the schema has two columns, the first without type, the second without anything.
    let bytes = [&[0x0a, 1, b't'][..], &[0x12, 7, 0x0a, 3, 0x12, 1, b'c', 0x0a, 0]].concat();
    assert_eq!(
        missing(master_service::CreateTable::REQUEST, &bytes),
        "schema.columns[0].type, schema.columns[1].name, schema.columns[1].type"
    );
    assert_eq!(missing(master_service::CreateTable::REQUEST, &[]), "name, schema");
}

#[test]
fn an_unknown_value_of_a_required_enum_counts_as_missing() {
    let column = |r#type| ColumnSchemaPb { name: "c".to_owned(), r#type, ..Default::default() };
    let request = |r#type| {
        let schema = SchemaPb { columns: vec![column(r#type)] };
        CreateTableRequestPb { name: "t".to_owned(), schema, ..Default::default() }.encode_to_vec()
    };
    let table = master_service::CreateTable::REQUEST;
    assert_eq!(missing(table, &request(DataType::Int32 as i32)), "");
    assert_eq!(missing(table, &request(777)), "schema.columns[0].type");
    assert_eq!(missing(table, &request(-1)), "schema.columns[0].type");
}

#[test]
fn an_unknown_value_of_an_optional_enum_is_fine() {
    let request = tserver::DeleteTabletRequestPb {
        tablet_id: "x".into(),
        delete_type: Some(4711),
        ..Default::default()
    };
    let table = proto::methods::tablet_server_admin_service::DeleteTablet::REQUEST;
    assert_eq!(missing(table, &request.encode_to_vec()), "");
    assert_eq!(request.delete_type(), tablet::TabletDataState::TabletDataTombstoned);
}

#[test]
fn occurrences_of_a_singular_message_are_merged() {
    // WriteResponsePB.error twice: the code in one, the status in the other.
    let halves = [&[0x0a, 2, 0x08, 6][..], &[0x0a, 4, 0x12, 2, 0x08, 1]];
    let table = tablet_server_service::Write::RESPONSE;
    assert_eq!(missing(table, halves[0]), "error.status");
    assert_eq!(missing(table, halves[1]), "error.code");
    assert_eq!(missing(table, &halves.concat()), "");
    let decoded = tserver::WriteResponsePb::decode(&halves.concat()[..]).unwrap();
    assert_eq!(decoded.error.unwrap().status.code(), app_status_pb::ErrorCode::NotFound);
}

#[test]
fn elements_of_a_repeated_message_are_not_merged() {
    let error = |bytes: &[u8]| [&[0x12, bytes.len() as u8], bytes].concat();
    let bytes = [error(&[0x08, 1]), error(&[0x12, 2, 0x08, 1])].concat();
    assert_eq!(
        missing(tablet_server_service::Write::RESPONSE, &bytes),
        "per_row_errors[0].error, per_row_errors[1].row_index"
    );
}

#[test]
fn a_field_of_another_wire_type_does_not_count() {
    // VoteRequestPB.candidate_term (3) as eight bytes, which prost refuses and C++ takes for an unknown field.
    let bytes = [0x19, 0, 0, 0, 0, 0, 0, 0, 0];
    let table = consensus_service::RequestConsensusVote::REQUEST;
    assert_eq!(missing(table, &bytes), "tablet_id, candidate_uuid, candidate_term, candidate_status");
    assert!(proto::kudu::consensus::VoteRequestPb::decode(&bytes[..]).is_err());
}

#[test]
fn bytes_that_are_no_protobuf_are_left_to_the_decoder() {
    let table = master_service::GetTableLocations::REQUEST;
    for bytes in [&[0xff][..], &[0x0a, 5, 1], &[0x00], &[0x0f], &[0x0c], &[0x0b], &[0x80; 11]] {
        assert_eq!(missing(table, bytes), "", "{bytes:x?}");
        assert!(proto::kudu::master::GetTableLocationsRequestPb::decode(bytes).is_err(), "{bytes:x?}");
    }
}

#[test]
fn unknown_fields_and_groups_are_passed_over() {
    let unknown = [
        &[0xf8, 0x3f, 0x01][..],                           // varint 1023
        &[0xf9, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0],             // eight bytes
        &[0xfa, 0x3f, 0x02, 0xff, 0xff],                   // bytes that are no message
        &[0xfb, 0x3f, 0x0b, 0x10, 0x01, 0x0c, 0xfc, 0x3f], // a group with a group in it
        &[0xfd, 0x3f, 0, 0, 0, 0],                         // four bytes
    ];
    let bytes = unknown.concat();
    let table = master_service::GetTableLocations::REQUEST;
    assert_eq!(missing(table, &bytes), "table");
    assert_eq!(missing(table, &[&bytes[..], &[0x0a, 0]].concat()), "");
}

#[test]
fn a_predicate_without_required_fields_has_no_table() {
    // Only `projected_columns` leads to required fields below NewScanRequestPB, beside its own.
    let new = tserver::NewScanRequestPb {
        tablet_id: "x".into(),
        column_predicates: vec![proto::kudu::ColumnPredicatePb {
            column: Some("c".to_owned()),
            predicate: Some(column_predicate_pb::Predicate::IsNull(column_predicate_pb::IsNull {})),
        }],
        ..Default::default()
    };
    let request = tserver::ScanRequestPb { new_scan_request: Some(new), ..Default::default() };
    assert_eq!(missing(tablet_server_service::Scan::REQUEST, &request.encode_to_vec()), "");
    assert!(master_service::Ping::REQUEST.fields.is_empty());
}

/// A message that holds itself, as messages, as groups and repeatedly.
static NODE: MessageTable = MessageTable {
    fields: &[
        FieldRule { number: 1, name: "id", required: true, repeated: false, kind: Kind::Varint },
        FieldRule { number: 2, name: "next", required: false, repeated: false, kind: Kind::Message(&NODE) },
        FieldRule {
            number: 3,
            name: "children",
            required: false,
            repeated: true,
            kind: Kind::Message(&NODE),
        },
        FieldRule { number: 4, name: "group", required: false, repeated: false, kind: Kind::Group(&NODE) },
        FieldRule { number: 5, name: "size", required: true, repeated: false, kind: Kind::Fixed64 },
        FieldRule { number: 6, name: "sum", required: true, repeated: false, kind: Kind::Fixed32 },
        FieldRule { number: 7, name: "text", required: true, repeated: false, kind: Kind::Bytes },
        FieldRule { number: 8, name: "kind", required: true, repeated: false, kind: Kind::Enum(&[-1, 0, 5]) },
    ],
};

#[test]
fn groups_are_walked_like_messages() {
    let whole =
        [&[0x08, 1, 0x29, 0, 0, 0, 0, 0, 0, 0, 0, 0x35, 0, 0, 0, 0, 0x3a, 0, 0x40][..], &[0xff; 9], &[0x01]]
            .concat();
    assert_eq!(missing(&NODE, &whole), "");
    let with_group = |inner: &[u8]| [&whole[..], &[0x23], inner, &[0x24]].concat();
    assert_eq!(missing(&NODE, &with_group(&whole)), "");
    assert_eq!(missing(&NODE, &with_group(&whole[2..])), "group.id");
    let cut = with_group(&whole);
    assert_eq!(missing(&NODE, &cut[..cut.len() - 1]), "", "a group without an end is no protobuf");
}

#[test]
fn nesting_ends_where_prost_ends_it() {
    // `depth` messages around an incomplete one: SchemaPB has no recursion, so a table of our own.
    let nested = |depth: usize| {
        (0..depth).fold(Vec::new(), |inner, _| {
            let mut outer = vec![0x12];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend_from_slice(&inner);
            outer
        })
    };
    assert!(missing(&NODE, &nested(100)).contains("next.next"));
    assert_eq!(missing(&NODE, &nested(101)), "");
    assert_eq!(missing(&NODE, &nested(20_000)), "");
    let groups = [vec![0x23; 1_000_000], vec![0x24; 1_000_000]].concat();
    assert_eq!(missing(&NODE, &groups), "");
}

#[test]
fn a_report_stays_short_whatever_is_missing() {
    // SchemaPB with a million columns that are empty, and AppStatusPB split into as many parts.
    let empty = [0x0a, 0].repeat(1_000_000);
    let mut schema = vec![0x12];
    prost::encoding::encode_varint(empty.len() as u64, &mut schema);
    schema.extend_from_slice(&empty);
    let missing = check(master_service::CreateTable::REQUEST, &schema).unwrap_err();
    assert!((100..110).contains(&missing.paths().len()), "{}", missing.paths().len());
    assert_eq!(missing.paths()[..3], ["name", "schema.columns[0].name", "schema.columns[0].type"]);

    let parts = [0x0a, 0].repeat(1_000_000);
    let missing = check(tablet_server_service::Write::RESPONSE, &parts).unwrap_err();
    assert_eq!(missing.paths(), ["error.code", "error.status"]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for table in [&NODE, master_service::TSHeartbeat::REQUEST, consensus_service::UpdateConsensus::REQUEST] {
            if let Err(missing) = check(table, &bytes) {
                prop_assert!(!missing.paths().is_empty());
            }
        }
    }

    /// Small bytes make tags and lengths of real fields likely.
    #[test]
    fn likely_bytes_never_panic(bytes in proptest::collection::vec(0_u8..0x48, 0..60)) {
        if let Err(missing) = check(&NODE, &bytes) {
            prop_assert!(!missing.paths().is_empty());
        }
    }

    #[test]
    fn what_prost_writes_is_complete_and_any_cut_of_it_is_survived(
        name in ".{0,8}",
        columns in proptest::collection::vec((".{0,8}", 0_i32..=20), 0..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let columns = columns
            .into_iter()
            .map(|(name, r#type)| ColumnSchemaPb { name, r#type, ..Default::default() })
            .collect();
        let bytes = CreateTableRequestPb { name, schema: SchemaPb { columns }, ..Default::default() }.encode_to_vec();
        let table = master_service::CreateTable::REQUEST;
        prop_assert_eq!(missing(table, &bytes), "");
        let cut = &bytes[..cut.index(bytes.len())];
        // A cut between two fields leaves well-formed bytes that lack the schema.
        let missing = missing(table, cut);
        prop_assert!(["", "schema", "name, schema"].contains(&missing.as_str()), "{}", missing);
    }

    /// Merging two messages can only fill gaps, and fills exactly those that the other has not.
    #[test]
    fn two_messages_after_one_another_lack_what_both_lack(
        a in proptest::sample::subsequence(vec![0, 1, 2, 3], 0..=4),
        b in proptest::sample::subsequence(vec![0, 1, 2, 3], 0..=4),
    ) {
        let parts: [&[u8]; 4] = [&[0x08, 1], &[0x29, 0, 0, 0, 0, 0, 0, 0, 0], &[0x35, 0, 0, 0, 0], &[0x3a, 0]];
        let names = ["id", "size", "sum", "text"];
        let kind = &[0x40, 5][..];
        let bytes = |set: &[usize]| [set.iter().flat_map(|&i| parts[i].to_vec()).collect(), kind.to_vec()].concat();
        let expected: Vec<_> = (0..4).filter(|i| !a.contains(i) && !b.contains(i)).map(|i| names[i]).collect();
        prop_assert_eq!(missing(&NODE, &[bytes(&a), bytes(&b)].concat()), expected.join(", "));
    }
}

proptest! {
    /// An unknown field with a long number has the whole message looked at closely.
    #[test]
    fn small_messages_are_judged_as_others_are(
        fields in proptest::collection::vec((1_u8..16, 0_u8..6, proptest::collection::vec(any::<u8>(), 0..5)), 0..6),
        cut in 0_usize..3,
    ) {
        let mut bytes = Vec::new();
        for (number, wire_type, content) in &fields {
            bytes.push(number << 3 | wire_type);
            match wire_type {
                0 => bytes.extend(content.iter().map(|byte| byte | 0x80).chain([1])),
                1 => bytes.extend([7; 8]),
                2 => bytes.extend([content.len() as u8].iter().chain(content)),
                5 => bytes.extend([7; 4]),
                _ => {}
            }
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let closely = [&[0xf8, 0x3f, 0x01], &bytes[..]].concat();
        for table in [
            master_service::GetTableLocations::REQUEST,
            master_service::CreateTable::REQUEST,
            master_service::TSHeartbeat::REQUEST,
            consensus_service::RequestConsensusVote::REQUEST,
            tablet_server_service::Write::REQUEST,
            tablet_server_service::Write::RESPONSE,
            tablet_server_service::Scan::REQUEST,
        ] {
            prop_assert_eq!(missing(table, &bytes), missing(table, &closely));
        }
    }
}
