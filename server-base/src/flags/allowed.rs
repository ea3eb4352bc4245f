//! Values that are of the right type and yet wrong.

use crate::flags::value::Value;

/// Says what is allowed when `value` is not.
pub(crate) fn check(name: &str, value: &Value) -> Result<(), &'static str> {
    match (name, value) {
        ("rpc_authentication" | "rpc_encryption", Value::String(text)) => {
            let words = ["disabled", "optional", "required"];
            let known = words.iter().any(|word| text.eq_ignore_ascii_case(word));
            if known { Ok(()) } else { Err("one of disabled, optional, required") }
        }
        ("rpc_max_message_size", Value::Int(size)) => {
            if (1 << 20..=i64::from(i32::MAX)).contains(size) {
                Ok(())
            } else {
                Err("from 1048576 to 2147483647 bytes")
            }
        }
        (
            "num_reactor_threads" | "rpc_num_service_threads" | "rpc_service_queue_length",
            Value::Int(count),
        ) => {
            if (1..=65536).contains(count) {
                Ok(())
            } else {
                Err("from 1 to 65536")
            }
        }
        ("rpc_negotiation_timeout_ms" | "table_locations_ttl_ms", Value::Int(ms)) => {
            if *ms >= 0 {
                Ok(())
            } else {
                Err("0 or more milliseconds")
            }
        }
        // 0 would be a thread that never rests, or scans that never end.
        (
            "heartbeat_interval_ms"
            | "heartbeat_rpc_timeout_ms"
            | "scanner_gc_check_interval_us"
            | "scanner_default_batch_size_bytes"
            | "scanner_max_batch_size_bytes",
            Value::Int(number),
        ) => {
            if *number >= 1 {
                Ok(())
            } else {
                Err("1 or more")
            }
        }
        ("memory_limit_soft_percentage", Value::Int(percent)) => {
            if (1..=100).contains(percent) {
                Ok(())
            } else {
                Err("from 1 to 100")
            }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::flags::{FlagSet, Role, SetError};

    #[test]
    fn nothing_can_be_set_to_go_on_for_ever() {
        for name in [
            "heartbeat_interval_ms",
            "heartbeat_rpc_timeout_ms",
            "scanner_gc_check_interval_us",
            "scanner_default_batch_size_bytes",
            "scanner_max_batch_size_bytes",
            "memory_limit_soft_percentage",
        ] {
            for value in ["0", "-1"] {
                let flags = FlagSet::builder(Role::TabletServer, "test").build();
                let error = flags.parse([format!("--{name}={value}")]).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains('1'), "{error}");
                assert!(matches!(flags.set(name, value, true), Err(SetError::BadValue { .. })), "{name}");
                flags.set(name, "1", true).unwrap();
            }
        }
    }
}
