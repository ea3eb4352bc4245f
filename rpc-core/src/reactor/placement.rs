//! Which reactor gets the next connection: the one with the fewest, in turn among equals.
//!
//! Kudu hashes the peer's address. All unix peers are unnamed, so there they all land on one reactor; and a hash, even a
//! perfect one, gives the fullest of 4 reactors with 64 connections about 1.5 times the mean. Counting does not.

#[derive(Debug, Default)]
pub(crate) struct Placement {
    next: usize,
}

impl Placement {
    /// The index of the smallest of `loads`; among equals the first one from where the last pick was.
    pub(crate) fn pick(&mut self, loads: impl ExactSizeIterator<Item = usize>) -> usize {
        let count = loads.len().max(1);
        let from = self.next;
        let turn = |index: usize| (index + count - from % count) % count;
        let best = loads.enumerate().min_by_key(|(index, load)| (*load, turn(*index)));
        let picked = best.map_or(0, |(index, _)| index);
        self.next = picked + 1;
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_take_turns() {
        let mut placement = Placement::default();
        let picks: Vec<_> = (0..6).map(|_| placement.pick([5, 5, 5].into_iter())).collect();
        assert_eq!(picks, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn the_emptiest_is_picked() {
        let mut placement = Placement::default();
        assert_eq!(placement.pick([3, 1, 2].into_iter()), 1);
        assert_eq!(placement.pick([0, 1, 0].into_iter()), 2);
        assert_eq!(placement.pick([7].into_iter()), 0);
    }

    #[test]
    fn loads_stay_level_when_connections_come_and_go() {
        let mut placement = Placement::default();
        let mut loads = [0usize; 4];
        for round in 0..1000 {
            loads[placement.pick(loads.iter().copied())] += 1;
            if round % 3 == 0 {
                let fullest = loads.iter().position(|load| *load > 0).unwrap();
                loads[fullest] -= 1;
            }
        }
        let (max, min) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
        assert!(max - min <= 2, "{loads:?}");
    }
}
