//! What a start of either server that cannot work looks like, for the tests of the crates that have the programs.

use std::net::TcpListener;
use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.env_remove("RUST_LOG").args(arguments).output().expect("the binary was built")
}

pub(crate) fn what_is_wrong_is_one_line_and_exit_code_1(program: &str) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let bind = format!("--rpc_bind_addresses={taken}");
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--rpc_bind_adresses=127.0.0.1:0"], &["rpc_bind_adresses", "rpc_bind_addresses"]),
        (&["--rpc_num_service_threads=many"], &["rpc_num_service_threads", "many"]),
        (&["--rpc_bind_addresses=127.0.0.1:port"], &["rpc_bind_addresses", "127.0.0.1:port"]),
        (&["--flagfile=/no/such/file"], &["/no/such/file"]),
        (&["start"], &["start"]),
        (&[&bind], &[&taken, "in use"]),
    ];
    for (arguments, words) in cases {
        let output = run(program, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{arguments:?}: {word} is not in {text}");
        }
    }
}

pub(crate) fn help_and_version_are_no_errors(program: &str) {
    for (argument, word) in [("--help", "rpc_bind_addresses"), ("--version", "1.18.1")] {
        let output = run(program, &[argument]);
        assert!(output.status.success(), "{argument}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(word), "{argument}");
    }
}
