//! The example does what it says.

#[test]
fn the_greeter_greets_over_the_wire() {
    let greeter = std::process::Command::new(env!("CARGO_BIN_EXE_greeter")).arg("Ada").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&greeter.stdout), "Hello, Ada!\n", "{greeter:?}");
    assert!(greeter.status.success());
}
