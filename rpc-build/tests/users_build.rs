//! Fear: what works for Nyala's own messages does not work in a user's build script.

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod demo {
    pub mod calculator {
        include!("users_build/demo.calculator.rs");
    }
}

use demo::calculator::calculator_service::{self, Evaluate, LastError, Reset};
use demo::calculator::{ExpressionPb, expression_pb};
use proto::{Method, required};
use rpc_build::{GenerateError, Generator};
use std::path::{Path, PathBuf};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/users_build")
}

fn generator() -> Generator {
    let mut generator = Generator::new();
    generator.include(here()).include(here().join("../../../proto/proto")).external("kudu", "::proto::kudu");
    generator
}

/// With `NYALA_BLESS` set, it writes the file that it otherwise compares.
#[test]
fn only_the_users_own_package_is_generated_and_the_checked_in_file_is_fresh() {
    let generated = generator().file("calculator.proto").generate().unwrap();
    assert_eq!(generated.files.keys().collect::<Vec<_>>(), ["demo.calculator.rs"]);
    if std::env::var_os("NYALA_BLESS").is_some() {
        generated.write_to(here()).unwrap();
    }
    let checked_in = std::fs::read_to_string(here().join("demo.calculator.rs")).unwrap();
    assert!(
        generated.files["demo.calculator.rs"] == checked_in,
        "run this test with NYALA_BLESS=1 and look at the diff"
    );
}

#[test]
fn markers_carry_the_options() {
    assert_eq!(calculator_service::SERVICE, "demo.calculator.CalculatorService");
    assert_eq!((Evaluate::NAME, Evaluate::TRACKED, Evaluate::AUTHZ), ("Evaluate", true, "AuthorizeEvaluate"));
    assert_eq!((Reset::NAME, Reset::TRACKED, Reset::AUTHZ), ("Reset", false, "AuthorizeClient"));
    let _: <LastError as Method>::Response = proto::kudu::AppStatusPb::default();
}

#[test]
fn tables_reach_into_messages_of_another_crate() {
    let missing = |table, bytes| required::check(table, bytes).unwrap_err().to_string();
    // ResultPB.error without its code.
    assert_eq!(missing(Evaluate::RESPONSE, &[0x0a, 0x00]), "error.code");
    assert_eq!(missing(LastError::RESPONSE, &[]), "code");
    assert_eq!(required::check(Reset::REQUEST, &[]), Ok(()));
}

#[test]
fn tables_follow_recursion_groups_and_map_values() {
    use prost::Message;
    let leaf = ExpressionPb { operator: 7, value: 1.0, ..Default::default() };
    let tree = ExpressionPb {
        operands: vec![leaf.clone(), leaf],
        note: Some(expression_pb::Note { text: "n".to_owned() }),
        problems: [("p".to_owned(), proto::kudu::AppStatusPb::default())].into(),
        ..Default::default()
    };
    // The default of `code` is the first value that its enum declares, of `operator` likewise.
    assert_eq!(tree.operator, 7);
    assert_eq!(required::check(Evaluate::REQUEST, &tree.encode_to_vec()), Ok(()));

    let missing = |bytes: &[u8]| required::check(Evaluate::REQUEST, bytes).unwrap_err().to_string();
    assert_eq!(missing(&[]), "value, operator");
    let whole = [0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 7];
    let after = |bytes: &[u8]| [&whole[..], bytes].concat();
    assert_eq!(missing(&after(&[0x1a, 0])), "operands[0].value, operands[0].operator");
    assert_eq!(missing(&after(&[0x23, 0x24])), "note.text");
    assert_eq!(missing(&after(&[0x2a, 5, 0x0a, 1, b'k', 0x12, 0])), "problems[0].value.code");
    assert_eq!(missing(&after(&[0x42, 0])), "status.code");
    assert_eq!(missing(&[&whole[..9], &[0x10, 5]].concat()), "operator");
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let generate = || generator().file("calculator.proto").generate().unwrap();
    let (first, second) = (generate(), generate());
    assert_eq!(first.files, second.files);
    assert_eq!(first.descriptor_set, second.descriptor_set);
}

#[test]
fn the_descriptor_set_holds_the_imports_and_the_custom_options() {
    let generated = generator().file("calculator.proto").generate().unwrap();
    let pool = prost_reflect::DescriptorPool::decode(&generated.descriptor_set[..]).unwrap();
    let names: Vec<_> = pool.files().map(|file| file.name().to_owned()).collect();
    assert!(names.contains(&"kudu/common/status.proto".to_owned()), "{names:?}");
    let service = pool.get_service_by_name("demo.calculator.CalculatorService").unwrap();
    let evaluate = service.methods().next().unwrap();
    assert_eq!(evaluate.options().extensions().count(), 2);
}

#[test]
fn streaming_methods_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = "syntax = \"proto2\"; package p; message M {} service S { rpc Go(M) returns (stream M); }";
    std::fs::write(folder.path().join("s.proto"), text).unwrap();
    let error = Generator::new().include(folder.path()).file("s.proto").generate().unwrap_err();
    assert!(matches!(error, GenerateError::Streaming { .. }));
    assert_eq!(error.to_string(), "p.S.Go: streaming methods do not exist in Kudu's RPC");
}

#[test]
fn a_wrong_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("wrong.proto"),
        "syntax = \"proto2\";\nmessage M { optional Nope n = 1; }",
    )
    .unwrap();
    let error = Generator::new().include(folder.path()).file("wrong.proto").generate().unwrap_err();
    assert!(format!("{error:?}").contains("wrong.proto"), "{error:?}");
    let error = Generator::new().include(folder.path()).file("absent.proto").generate().unwrap_err();
    assert!(error.to_string().contains("absent.proto"), "{error}");
}
