//! Sizes and numbers that both sides must agree on.

/// A server's default bound on an incoming frame, its length prefix included (`--rpc_max_message_size`): 50 MiB.
pub const DEFAULT_MAX_MESSAGE_SIZE: u32 = 52_428_800;

/// Bound on a frame of negotiation, in both directions: room for the longest Kerberos ticket (64 KiB) and for chains of
/// certificates, and little enough that strangers pin no memory. (Ours; in Kudu the bound above holds from the start.)
pub const MAX_NEGOTIATION_MESSAGE_SIZE: u32 = 128 << 10;

/// No frame may be longer than this, whatever the configured bound.
pub const HARD_MAX_MESSAGE_SIZE: u32 = i32::MAX as u32;

/// More sidecars than this break a connection.
pub const MAX_SIDECARS: usize = 10_000;

/// More required feature flags than this in one header break a connection. (Ours; Kudu has no such bound.)
pub const MAX_FEATURE_FLAGS: usize = 10_000;

/// Call id of every negotiation frame in both directions.
pub const NEGOTIATION_CALL_ID: i32 = -33;

/// Call id of the connection context, the last frame of negotiation.
pub const CONNECTION_CONTEXT_CALL_ID: i32 = -3;
