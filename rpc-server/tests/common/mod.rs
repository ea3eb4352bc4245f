//! A hand-made client: it writes the bytes of the protocol itself, so that it also can write wrong ones.
#![allow(dead_code, unreachable_pub)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::Bytes;
use net_addr::SockAddr;
use rpc_core::{RemoteError, RpcErrorCode};

/// The negotiation of the captured sessions, as user `root`.
pub const PREFACE: &str = "68727063090000";
pub const NEGOTIATE: &str = "000000150b18dfffffffffffffffff0108080110013a020a00";
pub const INITIATE_ROOT: &str = "000000200b18dfffffffffffffffff011310021a0600726f6f740022071205504c41494e";
pub const CONTEXT_ROOT: &str = "000000150b18fdffffffffffffffff010812061204726f6f74";

pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub struct RawClient {
    pub stream: Box<dyn Stream>,
}

/// A call to send; only what is set goes onto the wire.
#[derive(Default, Clone)]
pub struct RawCall<'a> {
    pub id: u32,
    pub service: &'a str,
    pub method: &'a str,
    pub timeout_ms: Option<u32>,
    pub features: &'a [u32],
    /// client_id, seq_no, first_incomplete_seq_no, attempt_no
    pub request_id: Option<(&'a str, u64, u64, u64)>,
    pub body: &'a [u8],
}

#[derive(Debug, Clone)]
pub struct RawAnswer {
    pub id: u32,
    pub result: Result<Bytes, RemoteError>,
}

impl RawAnswer {
    pub fn code(&self) -> Option<RpcErrorCode> {
        self.result.as_ref().err().and_then(|error| error.code)
    }

    pub fn message(&self) -> &str {
        self.result.as_ref().err().map_or("", |error| &error.message)
    }
}

pub fn connect(address: &SockAddr) -> Box<dyn Stream> {
    match address {
        SockAddr::UnixPath(path) => {
            let stream = UnixStream::connect(path.as_path()).expect("connect");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Box::new(stream)
        }
        SockAddr::UnixAbstract(name) => {
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
            let stream = UnixStream::connect_addr(&address).expect("connect");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Box::new(stream)
        }
        other => {
            let stream = TcpStream::connect(other.as_inet().expect("an IP address")).expect("connect");
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            Box::new(stream)
        }
    }
}

impl RawClient {
    pub fn open(address: &SockAddr) -> Self {
        Self::negotiate(connect(address))
    }

    pub fn negotiate(stream: Box<dyn Stream>) -> Self {
        let mut client = Self { stream };
        for text in [PREFACE, NEGOTIATE, INITIATE_ROOT] {
            client.stream.write_all(&hex(text)).unwrap();
        }
        client.frame();
        client.frame();
        client.stream.write_all(&hex(CONTEXT_ROOT)).unwrap();
        client
    }

    pub fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("a frame");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).expect("the rest of a frame");
        frame
    }

    pub fn send(&mut self, call: &RawCall<'_>) {
        self.stream.write_all(&encode(call)).unwrap();
    }

    pub fn receive(&mut self) -> RawAnswer {
        decode(&self.frame())
    }

    pub fn call(&mut self, call: &RawCall<'_>) -> RawAnswer {
        self.send(call);
        let answer = self.receive();
        assert_eq!(answer.id, call.id);
        answer
    }
}

pub fn encode(call: &RawCall<'_>) -> Vec<u8> {
    let mut method = Vec::new();
    field(&mut method, 1, call.service.as_bytes());
    field(&mut method, 2, call.method.as_bytes());
    let mut header = Vec::new();
    number(&mut header, 3, u64::from(call.id));
    field(&mut header, 6, &method);
    if let Some(ms) = call.timeout_ms {
        number(&mut header, 10, u64::from(ms));
    }
    for flag in call.features {
        number(&mut header, 11, u64::from(*flag));
    }
    if let Some((client, seq_no, first, attempt)) = call.request_id {
        let mut id = Vec::new();
        field(&mut id, 1, client.as_bytes());
        number(&mut id, 2, seq_no);
        number(&mut id, 3, first);
        number(&mut id, 4, attempt);
        field(&mut header, 15, &id);
    }
    let mut frame = Vec::new();
    varint(&mut frame, header.len() as u64);
    frame.extend_from_slice(&header);
    varint(&mut frame, call.body.len() as u64);
    frame.extend_from_slice(call.body);
    let mut out = (frame.len() as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&frame);
    out
}

pub fn decode(frame: &[u8]) -> RawAnswer {
    let mut rest = frame;
    let header_len = take_varint(&mut rest) as usize;
    let (mut header, mut rest) = rest.split_at(header_len);
    let (mut id, mut is_error) = (0, false);
    while !header.is_empty() {
        let tag = take_varint(&mut header);
        let value = take_varint(&mut header);
        match tag {
            8 => id = value as u32,
            16 => is_error = value != 0,
            _ => {}
        }
    }
    let body_len = take_varint(&mut rest) as usize;
    assert_eq!(rest.len(), body_len, "the main part ends the frame");
    let body = Bytes::copy_from_slice(rest);
    let result = if is_error { Err(RemoteError::decode(&body).expect("an error status")) } else { Ok(body) };
    RawAnswer { id, result }
}

pub fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub fn number(out: &mut Vec<u8>, number: u64, value: u64) {
    varint(out, number << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// The frames (lines) of one direction of a captured session.
pub fn capture(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../testdata/captures/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).map(hex).collect()
}

const PATIENCE: Duration = Duration::from_secs(120);
