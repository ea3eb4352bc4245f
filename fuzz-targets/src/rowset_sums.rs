//! Checksums in the description of a rowset, as `FORMAT.md` draws it: so that changed blocks are read and not only refused.

/// What is still to be read, and where in the whole it begins.
struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        (self.rest, self.at) = (rest, self.at + N);
        Some(*head)
    }

    fn number(&mut self) -> Option<usize> {
        self.take().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn offset(&mut self) -> Option<usize> {
        self.take().and_then(|bytes| usize::try_from(u64::from_le_bytes(bytes)).ok())
    }

    fn pass(&mut self, bytes: usize) -> Option<()> {
        (self.rest, self.at) = (self.rest.get(bytes..)?, self.at + bytes);
        Some(())
    }

    fn pass_string(&mut self) -> Option<()> {
        let length = self.number()?;
        self.pass(length)
    }
}

/// A checksum in the description: where it is, and of which bytes of which file.
struct Sum {
    at: usize,
    file: usize,
    offset: usize,
    bytes: usize,
}

/// Makes the checksums in a good description those of what is in `data.arrow`, `packed.arrow` and `index` now.
pub(crate) fn fit(meta: &mut [u8], files: &[Vec<u8>; 3]) {
    let Some(sums) = sums(&mut Cursor { rest: meta, at: 0 }) else { unreachable!("it is a description") };
    for Sum { at, file, offset, bytes } in sums {
        let covered = &files[file][offset..offset + bytes];
        meta[at..at + 4].copy_from_slice(&crc32c::crc32c(covered).to_le_bytes());
    }
}

fn sums(meta: &mut Cursor<'_>) -> Option<Vec<Sum>> {
    meta.pass(3 * 8 + 1 + 4)?;
    let mut columns = Vec::new();
    for _ in 0..meta.number()? {
        meta.pass(4)?;
        let [data_type, flags] = meta.take()?;
        columns.push((width(data_type), flags & 4 != 0));
    }
    let mut sums = Vec::new();
    for _ in 0..meta.number()? {
        let rows = meta.number()?;
        meta.pass(4)?;
        meta.pass_string()?;
        meta.pass_string()?;
        meta.pass(4 * 8)?;
        for _section in 0..4 {
            let (offset, bytes) = (meta.offset()?, meta.number()?);
            sums.push(Sum { at: meta.at, file: INDEX, offset, bytes });
            meta.pass(4)?;
        }
        for (width, is_packed) in &columns {
            let offset = meta.offset()?;
            let at = meta.at;
            meta.pass(4)?;
            let (nulls, content) = (meta.number()?, meta.number()?);
            let lengths = if *is_packed {
                [meta.number()?, meta.number()?, meta.number()?]
            } else {
                let cells = width.map_or((rows + 1) * 4, |width| width * rows);
                [if nulls > 0 { rows.div_ceil(8) } else { 0 }, cells, content]
            };
            let bytes = lengths.into_iter().map(|length| length.next_multiple_of(64)).sum();
            sums.push(Sum { at, file: usize::from(*is_packed), offset, bytes });
            if meta.take()? != [0] {
                meta.pass_string()?;
                meta.pass_string()?;
            }
        }
    }
    Some(sums)
}

/// Bytes of a cell by Kudu's number of its type; none of strings.
fn width(data_type: u8) -> Option<usize> {
    match data_type {
        1 | 9 => Some(1),
        3 => Some(2),
        5 | 10 | 15 | 21 => Some(4),
        7 | 11 | 13 | 16 => Some(8),
        17 => Some(16),
        _ => None,
    }
}

const INDEX: usize = 2;
