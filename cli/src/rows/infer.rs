//! The type of a column from its cells.

use schema::DataType;

use super::parse;

/// What the cells of a column seen so far can be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    bool: bool,
    int: bool,
    wide: bool,
    double: bool,
    date: bool,
    time: bool,
    seen: bool,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess { bool: true, int: true, wide: false, double: true, date: true, time: true, seen: false }
    }
}

impl Guess {
    /// Looks at one cell that is not null; outside the sample only the width of whole numbers can still change.
    pub(super) fn see(&mut self, cell: &str, in_sample: bool) {
        let int = if self.int { parse::int(cell) } else { None };
        self.wide |= int.is_some_and(|value| i32::try_from(value).is_err());
        if !in_sample && self.seen {
            return;
        }
        self.seen = true;
        self.int = int.is_some();
        self.bool = self.bool && parse::bool(cell).is_some();
        self.double = self.double && parse::double(cell).is_some();
        self.date = self.date && parse::date(cell).is_some();
        self.time = self.time && parse::micros(cell).is_some();
    }

    /// The narrowest type that fits; text for a column without any value.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Guess { seen: false, .. } => DataType::String,
            Guess { bool: true, .. } => DataType::Bool,
            Guess { int: true, wide: false, .. } => DataType::Int32,
            Guess { int: true, .. } => DataType::Int64,
            Guess { double: true, .. } => DataType::Double,
            Guess { date: true, .. } => DataType::Date,
            Guess { time: true, .. } => DataType::UnixtimeMicros,
            _ => DataType::String,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: &[&str]) -> DataType {
        let mut guess = Guess::default();
        cells.iter().for_each(|cell| guess.see(cell, true));
        guess.data_type()
    }

    #[test]
    fn the_narrowest_type_that_holds_all_cells_is_chosen() {
        assert_eq!(of(&["true", "false"]), DataType::Bool);
        assert_eq!(of(&["1", "-7"]), DataType::Int32);
        assert_eq!(of(&["1", "3000000000"]), DataType::Int64);
        assert_eq!(of(&["1", "2.5"]), DataType::Double);
        assert_eq!(of(&["2013-01-01", "2024-02-29"]), DataType::Date);
        assert_eq!(of(&["2013-01-01T10:00:00Z"]), DataType::UnixtimeMicros);
        assert_eq!(of(&["2013-01-01", "N14228"]), DataType::String);
        assert_eq!(of(&[]), DataType::String);
    }

    #[test]
    fn codes_with_leading_zeros_stay_text() {
        assert_eq!(of(&["04", "17"]), DataType::String);
        assert_eq!(of(&["0", "17"]), DataType::Int32);
    }

    #[test]
    fn behind_the_sample_numbers_get_wider_but_the_kind_stays() {
        let mut guess = Guess::default();
        guess.see("1", true);
        guess.see("3000000000", false);
        guess.see("oops", false);
        assert_eq!(guess.data_type(), DataType::Int64);
    }
}
