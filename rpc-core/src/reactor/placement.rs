//! Which reactor gets the next connection: the one with the fewest; a keyed hash of the peer's address decides among equals.
//!
//! Kudu takes the hash alone. All unix peers are unnamed, so there they all land on one reactor; and a hash, even a
//! perfect one, gives the fullest of 4 reactors with 64 connections about 1.5 times the mean. Counting does not. Among
//! equals the hash is better than taking turns: a peer that comes and goes finds the same reactor, and its caches, and
//! others do not all follow the same round. The key keeps peers from choosing addresses that fall together.

use net_addr::SockAddr;
use net_addr::hash::sip::SipKey;

#[derive(Debug)]
pub(crate) struct Placement {
    key: SipKey,
}

impl Placement {
    pub(crate) fn new(key: SipKey) -> Self {
        Self { key }
    }

    /// The index of the smallest of `loads`; among equals the one that the hash of `peer` says. Unix peers have no names:
    /// they take turns by `number`, that of the connection.
    pub(crate) fn pick(&self, loads: &[usize], peer: &SockAddr, number: u64) -> usize {
        let least = loads.iter().min();
        let equals = loads.iter().filter(|load| Some(*load) == least).count();
        let hash = match peer {
            SockAddr::UnixUnnamed => number,
            named => self.key.hash(named),
        };
        let turn = hash.checked_rem(equals as u64).unwrap_or(0);
        let mut smallest = (0..).zip(loads).filter(|(_, load)| Some(*load) == least).map(|(index, _)| index);
        smallest.nth(usize::try_from(turn).unwrap_or(0)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        Placement::new(SipKey::new(1, 2))
    }

    fn peers() -> [Box<dyn Fn(u16) -> SockAddr>; 3] {
        let parse = |text: String| SockAddr::parse(&text, 0).unwrap();
        [
            Box::new(move |i| parse(format!("127.0.0.1:{}", 40_000 + i))),
            Box::new(move |i| parse(format!("127.0.0.{}:40000", i + 1))),
            Box::new(|_| SockAddr::UnixUnnamed),
        ]
    }

    #[test]
    fn the_emptiest_is_picked() {
        let peer = peers()[0](0);
        assert_eq!(placement().pick(&[3, 1, 2], &peer, 0), 1);
        assert_eq!(placement().pick(&[7], &peer, 9), 0);
        assert_eq!(placement().pick(&[], &peer, 9), 0);
    }

    #[test]
    fn loads_stay_level_however_peers_are_named() {
        for peer in peers() {
            for count in [8, 64] {
                let mut loads = [0; 4];
                (0..count).for_each(|i| loads[placement().pick(&loads, &peer(i), i.into())] += 1);
                assert_eq!(loads, [usize::from(count) / 4; 4]);
            }
        }
    }

    #[test]
    fn loads_stay_level_when_connections_come_and_go() {
        let [peer, ..] = peers();
        let mut loads = [0usize; 4];
        for round in 0..1000 {
            loads[placement().pick(&loads, &peer(round), round.into())] += 1;
            if round % 3 == 0 {
                let fullest = loads.iter().position(|load| *load > 0).unwrap();
                loads[fullest] -= 1;
            }
        }
        let (max, min) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
        assert!(max - min <= 2, "{loads:?}");
    }

    #[test]
    fn one_after_the_other_they_do_not_all_find_the_same_reactor() {
        for peer in peers() {
            let mut taken = [0; 4];
            (0..64).for_each(|i| taken[placement().pick(&[0; 4], &peer(i), i.into())] += 1);
            assert!(taken.iter().all(|count| (6..=26).contains(count)), "{taken:?}");
        }
    }

    #[test]
    fn another_key_places_otherwise() {
        let [peer, ..] = peers();
        let all = |key: SipKey| -> Vec<usize> {
            (0..64).map(|i| Placement::new(key).pick(&[0; 4], &peer(i), 0)).collect()
        };
        assert_eq!(all(SipKey::new(1, 2)), all(SipKey::new(1, 2)));
        assert_ne!(all(SipKey::new(1, 2)), all(SipKey::new(1, 3)));
    }
}
