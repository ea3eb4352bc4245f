//! What holds for every address and every text.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::{Ipv6Addr, SocketAddrV6};

use net_addr::hash::{Form, city, jenkins, sip::SipKey};
use net_addr::{HostPort, SockAddr};
use proptest::prelude::*;

fn any_address() -> impl Strategy<Value = SockAddr> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<u16>())
            .prop_map(|(ip, port)| SockAddr::from((std::net::Ipv4Addr::from(ip), port))),
        (any::<[u8; 16]>(), any::<u16>(), prop_oneof![Just(0), any::<u32>()]).prop_map(
            |(ip, port, scope)| { SockAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope)) }
        ),
        proptest::collection::vec(any::<u8>(), 0..=107)
            .prop_map(|name| SockAddr::unix_abstract(name).unwrap()),
        "[@<\\\\]?[ -~\u{80}-\u{9f}ä]{1,50}".prop_map(|path| SockAddr::unix_path(path).unwrap()),
        proptest::collection::vec(1..=255_u8, 1..=107).prop_map(|path| {
            SockAddr::unix_path(std::os::unix::ffi::OsStrExt::from_bytes(path.as_slice()) as &std::ffi::OsStr)
                .unwrap()
        }),
        Just(SockAddr::UnixUnnamed),
    ]
}

fn std_hash(addr: &SockAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    addr.hash(&mut hasher);
    hasher.finish()
}

/// A `sockaddr_in` with chosen padding, which no safe call makes.
#[allow(unsafe_code)]
fn native_v4(ip: [u8; 4], port: u16, padding: [u8; 8]) -> socket2::SockAddr {
    let mut storage = socket2::SockAddrStorage::zeroed();
    // SAFETY: an array of 16 bytes has no alignment and no invalid value, and is smaller than the storage.
    let bytes = unsafe { storage.view_as::<[u8; 16]>() };
    bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&ip);
    bytes[8..].copy_from_slice(&padding);
    // SAFETY: the storage holds a sockaddr_in, which is 16 bytes long.
    unsafe { socket2::SockAddr::new(storage, 16) }
}

const AF_INET: u16 = 2;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_printed_is_read_back(addr in any_address()) {
        let text = addr.to_string();
        prop_assert!(!text.chars().any(char::is_control), "{text:?}");
        prop_assert_eq!(SockAddr::parse(&text, 1).unwrap(), addr);
    }

    #[test]
    fn host_and_port_are_read_back(addr in any_address()) {
        if let Ok(host_port) = HostPort::try_from(&addr) {
            prop_assert_eq!(host_port.to_string().parse::<HostPort>().unwrap(), host_port.clone());
            prop_assert_eq!(host_port.as_ip(), Some(addr));
        }
    }

    #[test]
    fn the_native_form_is_read_back(addr in any_address()) {
        if let Ok(native) = addr.to_socket2() {
            prop_assert_eq!(SockAddr::try_from(&native).unwrap(), addr);
        }
    }

    #[test]
    fn addresses_with_changed_characters_are_refused_or_stable(
        addresses in proptest::collection::vec(any_address(), 1..3),
        changes in proptest::collection::vec((any::<usize>(), 0..2_usize, "[\\[\\]:.%,0-9a-f \\\\x<>@/é]{0,2}"), 1..4),
    ) {
        let mut text = addresses.iter().map(SockAddr::to_string).collect::<Vec<_>>().join(",");
        for (at, removed, inserted) in changes {
            let mut characters: Vec<char> = text.chars().collect();
            let at = at % (characters.len() + 1);
            characters.splice(at..(at + removed).min(characters.len()), inserted.chars());
            text = characters.into_iter().collect();
        }
        if let Ok(addr) = SockAddr::parse(&text, 1) {
            prop_assert_eq!(SockAddr::parse(&addr.to_string(), 2).unwrap(), addr);
        }
        if let Ok(list) = HostPort::parse_list(&text, 1) {
            for host_port in list {
                prop_assert_eq!(HostPort::parse(&host_port.to_string(), 2).unwrap(), host_port);
            }
        }
    }

    #[test]
    fn text_like_an_address_never_panics_and_what_is_taken_is_stable(text in "(unix:)?[@/]?[\\[\\]:.%,0-9a-f \\\\x<>@é]{0,40}") {
        if let Ok(addr) = SockAddr::parse(&text, 1) {
            prop_assert_eq!(SockAddr::parse(&addr.to_string(), 2).unwrap(), addr);
        }
        if let Ok(list) = HostPort::parse_list(&text, 1) {
            for host_port in list {
                prop_assert_eq!(HostPort::parse(&host_port.to_string(), 2).unwrap(), host_port);
            }
        }
    }

    /// Native IPv4 addresses that differ only in the eight bytes nobody sets are one address.
    #[test]
    fn padding_has_no_part_in_equality_and_hash(ip: [u8; 4], port: u16, padding: [u8; 8]) {
        let (set, clean) = (native_v4(ip, port, padding), native_v4(ip, port, [0; 8]));
        let (set, clean) = (SockAddr::try_from(&set).unwrap(), SockAddr::try_from(&clean).unwrap());
        let parsed: SockAddr = format!("{}:{port}", std::net::Ipv4Addr::from(ip)).parse().unwrap();
        for other in [set, clean] {
            prop_assert_eq!(&other, &parsed);
            prop_assert_eq!(std_hash(&other), std_hash(&parsed));
            prop_assert_eq!(other.cmp(&parsed), std::cmp::Ordering::Equal);
            prop_assert_eq!(jenkins::hash(&other), jenkins::hash(&parsed));
            prop_assert_eq!(city::hash(&other, Form::Short), city::hash(&parsed, Form::Short));
            prop_assert_eq!(city::hash(&other, Form::Accepted), city::hash(&parsed, Form::Accepted));
            prop_assert_eq!(SipKey::new(1, 2).hash(&other), SipKey::new(1, 2).hash(&parsed));
        }
    }

    #[test]
    fn order_agrees_with_equality(a in any_address(), b in any_address()) {
        prop_assert_eq!(a == b, a.cmp(&b) == std::cmp::Ordering::Equal);
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    }
}
