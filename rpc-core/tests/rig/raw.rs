//! The bytes of clients, written by hand, so that they also can be wrong.

use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use rpc_core::Messenger;

use super::{Echo, Rig};

pub const PREFACE: &[u8] = b"hrpc\x09\0\0";
pub const HEAD: &[u8] = b"\x0b\x18\xdf\xff\xff\xff\xff\xff\xff\xff\xff\x01";

pub fn connect(rig: &Rig) -> TcpStream {
    let stream = TcpStream::connect(rig.tcp.as_inet().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

/// Preface, NEGOTIATE, SASL_INITIATE, context: as one packet.
pub fn greeting() -> Vec<u8> {
    let negotiate = [&[0, 0, 0, 21][..], HEAD, b"\x08\x08\x01\x10\x01\x3a\x02\x0a\x00"].concat();
    let initiate = [&[0, 0, 0, 32][..], HEAD, b"\x13\x10\x02\x1a\x06\0root\0\x22\x07\x12\x05PLAIN"].concat();
    let context = b"\0\0\0\x15\x0b\x18\xfd\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x12\x06\x12\x04root";
    [PREFACE, &negotiate, &initiate, context].concat()
}

/// A call of `Hold` with an empty body.
pub fn hold(id: u8) -> Vec<u8> {
    let header = [&[0x18, id, 0x32, 26][..], b"\x0a\x12nyala.test.Service\x12\x04Hold"].concat();
    [&[0, 0, 0, header.len() as u8 + 2, header.len() as u8][..], &header, &[0]].concat()
}

/// An echo call with a body of `len` bytes.
pub fn echo(id: u32, len: usize) -> Vec<u8> {
    let mut header = vec![0x18];
    let mut rest = id;
    while rest >= 0x80 {
        header.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    header.push(rest as u8);
    header.extend_from_slice(&[0x32, 26]);
    header.extend_from_slice(b"\x0a\x12nyala.test.Service\x12\x04Echo");
    let mut payload = vec![header.len() as u8];
    payload.extend_from_slice(&header);
    let mut left = len;
    while left >= 0x80 {
        payload.push(left as u8 | 0x80);
        left >>= 7;
    }
    payload.push(left as u8);
    payload.resize(payload.len() + len, 7);
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}

pub async fn a_good_client_is_served(rig: &Rig) {
    for proxy in rig.proxies(&Messenger::builder().user("good").build()) {
        proxy.call::<Echo>(&Bytes::new()).timeout(Duration::from_secs(120)).send().await.unwrap();
    }
}
