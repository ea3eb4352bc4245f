//! A start that cannot work says why in one line and ends with exit code 1.

#[path = "../../server-base/tests/common/wrong_starts.rs"]
mod wrong_starts;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nyala-tserver");

#[test]
fn what_is_wrong_is_one_line_and_exit_code_1() {
    wrong_starts::what_is_wrong_is_one_line_and_exit_code_1(PROGRAM);
}

#[test]
fn help_and_version_are_no_errors() {
    wrong_starts::help_and_version_are_no_errors(PROGRAM);
}
