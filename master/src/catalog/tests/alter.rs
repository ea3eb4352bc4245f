use proto::kudu::master::alter_table_request_pb::{AddColumn, Step, StepType};
use proto::kudu::master::{AlterTableRequestPb, TableIdentifierPb};
use proto::kudu::{ColumnSchemaPb, DataType};
use tablet::backend::Memory;

use super::*;

fn add_column(name: &str) -> AlterTableRequestPb {
    let schema = ColumnSchemaPb {
        name: name.into(),
        r#type: DataType::Int32 as i32,
        is_nullable: Some(true),
        ..Default::default()
    };
    let add_column = Some(AddColumn { schema });
    let step = Step { r#type: Some(StepType::AddColumn as i32), add_column, ..Default::default() };
    AlterTableRequestPb { alter_schema_steps: vec![step], ..Default::default() }
}

fn alter(catalog: &mut Catalog, id: &str, request: &AlterTableRequestPb, now: Instant) -> Result<(), Fault> {
    let table = catalog.tables().get(id).unwrap();
    let altered = crate::ddl::alter::alter(table, catalog.tablets_of(table), request, &Limits::default())?;
    catalog.alter_table(id, altered, now)
}

/// A table whose tablets are made.
fn made(catalog: &mut Catalog, name: &str, tablets: u8, now: Instant) -> String {
    let id = catalog.create_table(plan(name, tablets, 1), now).unwrap();
    for action in actions(catalog) {
        let Action::Create { server, tablet } = action else { panic!("{action:?}") };
        catalog.create_answered(&server, &tablet, true, now);
    }
    id
}

fn is_altering(catalog: &Catalog, id: &str) -> bool {
    catalog.tables().get(id).unwrap().altered_from.is_some()
}

#[test]
fn an_alteration_ends_when_all_tablets_have_heard() {
    let (mut catalog, now) = catalog(2);
    let id = made(&mut catalog, "t", 3, now);
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    let sent = actions(&mut catalog);
    assert_eq!(sent.len(), 3);
    for (i, action) in sent.iter().enumerate() {
        assert!(is_altering(&catalog, &id), "after {i} of 3");
        let Action::Alter { server, tablet } = action else { panic!("{action:?}") };
        let request = catalog.alter_request(server, tablet).unwrap();
        assert_eq!((request.schema_version, request.schema.columns.len()), (1, 2));
        assert_eq!(catalog.alter_answered(server, tablet, None, now), Next::Retry, "it did not answer");
        assert_eq!(catalog.alter_answered(server, tablet, Some(1), now), Next::Stop);
        assert_eq!(catalog.alter_request(server, tablet), None, "it knows");
    }
    assert!(!is_altering(&catalog, &id));
    assert_eq!(actions(&mut catalog), []);
}

#[test]
fn a_table_that_changes_while_it_is_told_is_told_again() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    let [Action::Alter { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one tablet") };
    assert_eq!(catalog.alter_request(server, tablet).unwrap().schema_version, 1);
    alter(&mut catalog, &id, &add_column("b"), now).unwrap();
    assert_eq!(actions(&mut catalog), [], "one at a time");
    let old = catalog.tables().get(&id).unwrap().altered_from.clone().unwrap();
    assert_eq!(old.len(), 1, "what all tablets have");
    catalog.alter_answered(server, tablet, Some(1), now);
    assert!(is_altering(&catalog, &id));
    assert_eq!(actions(&mut catalog).len(), 1);
    assert_eq!(catalog.alter_request(server, tablet).unwrap().schema_version, 2);
    catalog.alter_answered(server, tablet, Some(2), now);
    assert!(!is_altering(&catalog, &id));
}

#[test]
fn a_replica_that_reports_an_older_version_is_told() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    let [Action::Alter { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one tablet") };
    catalog.alter_answered(server, tablet, Some(1), now);
    let with_version =
        |version| ReportedTabletPb { schema_version: Some(version), ..report(tablet, server, 1) };
    catalog.report(server, &with_version(1));
    assert_eq!(actions(&mut catalog), []);
    catalog.report(server, &with_version(0));
    assert_eq!(actions(&mut catalog).len(), 1, "its files are from before");
    catalog.report(server, &with_version(0));
    assert_eq!(actions(&mut catalog), [], "it is being told");
    catalog.report(server, &with_version(1));
    assert_eq!(catalog.alter_request(server, tablet), None);
}

#[test]
fn a_server_that_is_away_is_told_when_it_calls() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    let [Action::Alter { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one tablet") };
    let later = now + Duration::from_secs(61);
    assert_eq!(catalog.alter_answered(server, tablet, None, later), Next::Stop);
    alter(&mut catalog, &id, &add_column("b"), later).unwrap();
    assert_eq!(actions(&mut catalog), []);
    catalog.resume(server);
    assert_eq!(actions(&mut catalog).len(), 1);
    assert_eq!(catalog.alter_request(server, tablet).unwrap().schema_version, 2);
}

#[test]
fn a_tablet_that_is_still_being_made_hears_afterwards() {
    let (mut catalog, now) = catalog(1);
    let id = catalog.create_table(plan("t", 1, 1), now).unwrap();
    let [Action::Create { server, tablet }] = &actions(&mut catalog)[..] else { panic!("one tablet") };
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    assert_eq!(actions(&mut catalog), []);
    assert_eq!(catalog.create_request(server, tablet).unwrap().schema.columns.len(), 2);
    catalog.create_answered(server, tablet, true, now);
    assert!(is_altering(&catalog, &id));
    assert_eq!(actions(&mut catalog).len(), 1);
    catalog.alter_answered(server, tablet, Some(1), now);
    assert!(!is_altering(&catalog, &id));
}

#[test]
fn the_next_start_goes_on_telling_and_gives_no_column_id_twice() {
    let memory = Memory::new();
    let open = |now| restored(memory.clone(), now);
    let now = Instant::now();
    let mut catalog = open(now);
    register(&mut catalog, "ts0", 1, now).unwrap();
    let id = made(&mut catalog, "t", 2, now);
    alter(&mut catalog, &id, &add_column("a"), now).unwrap();
    alter(&mut catalog, &id, &add_column("b"), now).unwrap();
    let drop = proto::kudu::master::alter_table_request_pb::DropColumn { name: "b".into() };
    let mut request = add_column("b");
    request.alter_schema_steps.insert(
        0,
        Step { r#type: Some(StepType::DropColumn as i32), drop_column: Some(drop), ..Default::default() },
    );
    alter(&mut catalog, &id, &request, now).unwrap();
    let before = catalog.tables().get(&id).unwrap().clone();
    let mut again = open(now);
    register(&mut again, "ts0", 2, now).unwrap();
    let table = again.tables().get(&id).unwrap();
    assert_eq!(table.about.schema, before.about.schema);
    assert_eq!(table.altered_from, before.altered_from);
    assert_eq!((table.schema_version, table.about.next_column_id), (3, 4));
    assert_eq!(table.about.schema.id(2), schema::ColumnId(3), "not the one that was dropped");
    let told = actions(&mut again);
    assert_eq!(told.len(), 2, "{told:?}");
    for action in told {
        let Action::Alter { server, tablet } = action else { panic!("{action:?}") };
        again.alter_answered(&server, &tablet, Some(3), now);
    }
    assert!(!is_altering(&again, &id));
    let mut third = open(now);
    assert!(!is_altering(&third, &id));
    assert_eq!(actions(&mut third), [], "all had heard");
}

#[test]
fn an_alteration_that_the_disk_refuses_does_not_happen() {
    use tablet::backend::{Fault as DiskFault, Faulty};
    // The id of the cluster takes the first three operations, the table and its tablet one each.
    let backend = Faulty::new(Memory::new(), 5, DiskFault::Death);
    let now = Instant::now();
    let mut catalog = restored(backend, now);
    register(&mut catalog, "ts0", 1, now).unwrap();
    let id = made(&mut catalog, "t", 1, now);
    let renamed = AlterTableRequestPb { new_table_name: Some("u".into()), ..add_column("a") };
    assert!(matches!(alter(&mut catalog, &id, &renamed, now), Err(Fault::Store(_))));
    let table = catalog.tables().get(&id).unwrap();
    assert_eq!((table.schema_version, table.about.schema.len()), (0, 1));
    assert_eq!((catalog.tables().id_of("t"), catalog.tables().id_of("u")), (Some(&id[..]), None));
    assert_eq!(actions(&mut catalog), []);
}

#[test]
fn a_table_is_found_under_its_new_name_only_and_by_its_id() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    let renamed = AlterTableRequestPb { new_table_name: Some("u".into()), ..Default::default() };
    alter(&mut catalog, &id, &renamed, now).unwrap();
    let by_name = |name: &str| TableIdentifierPb { table_name: Some(name.into()), table_id: None };
    assert!(catalog.tables().find(&by_name("t")).is_err());
    assert_eq!(catalog.tables().find(&by_name("u")).unwrap().id, id);
    actions(&mut catalog);
    made(&mut catalog, "t", 1, now);
}

#[test]
fn a_deleted_table_comes_back_within_its_time_and_not_later() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    assert!(matches!(catalog.recall_table(&id, None, 0), Err(Fault::NotRecallable { expired: false, .. })));
    catalog.soft_delete_table(&id, 10, 100).unwrap();
    assert!(matches!(catalog.soft_delete_table(&id, 10, 100), Err(Fault::SoftDeletedTwice { .. })));
    assert!(matches!(alter(&mut catalog, &id, &add_column("a"), now), Err(Fault::SoftDeleted { .. })));
    assert!(matches!(catalog.create_table(plan("t", 1, 1), now), Err(Fault::TableExists { .. })));
    catalog.delete_expired(109);
    catalog.recall_table(&id, Some("back"), 109).unwrap();
    assert_eq!(catalog.tables().id_of("back"), Some(&id[..]));
    catalog.delete_expired(1_000);
    catalog.soft_delete_table(&id, 10, 1_000).unwrap();
    assert!(matches!(
        catalog.recall_table(&id, None, 1_010),
        Err(Fault::NotRecallable { expired: true, .. })
    ));
    actions(&mut catalog);
    catalog.delete_expired(1_010);
    assert!(catalog.tables().get(&id).is_none());
    assert!(matches!(&actions(&mut catalog)[..], [Action::Delete { .. }]));
}

#[test]
fn a_recall_under_a_name_that_is_taken_leaves_the_table_deleted() {
    let (mut catalog, now) = catalog(1);
    let id = made(&mut catalog, "t", 1, now);
    made(&mut catalog, "taken", 1, now);
    catalog.soft_delete_table(&id, 10, 100).unwrap();
    assert!(matches!(catalog.recall_table(&id, Some("taken"), 105), Err(Fault::TableExists { .. })));
    assert!(catalog.tables().get(&id).unwrap().soft_deleted.is_some());
    catalog.recall_table(&id, None, 105).unwrap();
    assert_eq!(catalog.tables().id_of("t"), Some(&id[..]));
}

#[test]
fn a_tablet_is_replaced_by_an_empty_one_of_its_partition_also_over_a_restart() {
    let (memory, now) = (Memory::new(), Instant::now());
    let mut catalog = restored(memory.clone(), now);
    register(&mut catalog, "ts0", 1, now).unwrap();
    let id = made(&mut catalog, "t", 3, now);
    let before: Vec<_> = catalog.tables().get(&id).unwrap().tablets.clone();
    let (start, old) = before[1].clone();
    let new = catalog.replace_tablet(&old, now).unwrap();
    let after: Vec<_> = catalog.tables().get(&id).unwrap().tablets.clone();
    assert_eq!(after, [before[0].clone(), (start, new.clone()), before[2].clone()]);
    assert!(catalog.tablet(&old).is_none() && !catalog.tablet(&new).unwrap().running);
    let sent = actions(&mut catalog);
    assert!(
        sent.iter().any(|action| matches!(action, Action::Create { tablet, .. } if *tablet == new)),
        "{sent:?}"
    );
    assert!(
        sent.iter().any(|action| matches!(action, Action::Delete { tablet, .. } if *tablet == old)),
        "{sent:?}"
    );
    let again = catalog.replace_tablet(&old, now).unwrap_err();
    assert_eq!(again.to_string(), format!("Unknown tablet {old}"));
    drop(catalog);
    let catalog = restored(memory, now);
    assert_eq!(catalog.tables().get(&id).unwrap().tablets, after);
}
