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
        (
            "rpc_negotiation_timeout_ms" | "heartbeat_interval_ms" | "table_locations_ttl_ms",
            Value::Int(ms),
        ) => {
            if *ms >= 0 {
                Ok(())
            } else {
                Err("0 or more milliseconds")
            }
        }
        _ => Ok(()),
    }
}
