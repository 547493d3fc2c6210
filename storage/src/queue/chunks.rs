//! A list that grows without moving what is in it. A `Vec` that doubles copies megabytes in one step, and the memory it
//! gets for that is cleared by the kernel in the same step: milliseconds in which a core does nothing else.

use super::extent_file::CHUNK_COUNT;

const CHUNK_LEN: usize = CHUNK_COUNT as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunks<T> {
    /// All but the last are full, and none is empty.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks { chunks: Vec::new() }
    }
}

impl<T> Chunks<T> {
    pub(crate) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_LEN => last.push(item),
            // The first grows as it is needed: most lists are short.
            first_or_full => {
                let mut chunk = Vec::with_capacity(first_or_full.map_or(0, |full| full.len()));
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK_LEN + last.len(),
            None => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.chunks.last().and_then(|chunk| chunk.last())
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// Pieces of [`CHUNK_COUNT`] items, the last of them shorter.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[T]> {
        self.chunks.iter().map(|chunk| &chunk[..])
    }

    /// Items from `at` on: those of its chunk, none behind the end.
    pub(crate) fn piece_from(&self, at: usize) -> &[T] {
        let chunk = self.chunks.get(at / CHUNK_LEN);
        chunk.and_then(|chunk| chunk.get(at % CHUNK_LEN..)).unwrap_or_default()
    }

    /// Takes out the items from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Chunks<T>
    where
        T: Copy,
    {
        let tail = self.iter().skip(at).copied().collect();
        self.chunks.truncate(at.div_ceil(CHUNK_LEN));
        if let Some(last) = self.chunks.last_mut()
            && !at.is_multiple_of(CHUNK_LEN)
        {
            last.truncate(at % CHUNK_LEN);
        }
        tail
    }

    /// The number of items in front, for which alone the predicate holds.
    pub(crate) fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let behind = self.chunks.partition_point(|chunk| holds(&chunk[0]));
        let Some(full) = behind.checked_sub(1) else { return 0 };
        full * CHUNK_LEN + self.chunks[full].partition_point(holds)
    }
}

impl<T> Extend<T> for Chunks<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Chunks<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Chunks<T> {
        let mut chunks = Chunks::default();
        chunks.extend(items);
        chunks
    }
}

impl<T> std::ops::Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK_LEN][at % CHUNK_LEN]
    }
}

impl<T> IntoIterator for Chunks<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list() {
        for len in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 3 * CHUNK_LEN + 7] {
            let expected: Vec<usize> = (0..len).collect();
            let chunks: Chunks<usize> = expected.iter().copied().collect();
            assert_eq!((chunks.len(), chunks.is_empty()), (len, len == 0));
            assert_eq!(chunks.last(), expected.last());
            assert!(chunks.iter().eq(&expected), "{len}");
            assert!(chunks.pieces().eq(expected.chunks(CHUNK_LEN)), "{len}");
            for at in [0, 1, len / 2, len.saturating_sub(1), len, len + CHUNK_LEN] {
                assert_eq!(chunks.partition_point(|item| *item < at), at.min(len), "{at} of {len}");
                let piece = chunks.piece_from(at);
                assert_eq!(piece.is_empty(), at >= len, "{at} of {len}");
                assert!(piece.iter().eq(expected[at.min(len)..].iter().take(piece.len())), "{at} of {len}");
                if at < len {
                    assert_eq!(chunks[at], at);
                }
            }
            for at in [0, 1, CHUNK_LEN, len / 2, len] {
                let at = at.min(len);
                let (mut front, (expected, tail)) = (chunks.clone(), expected.split_at(at));
                assert!(front.split_off(at).iter().eq(tail), "{at} of {len}");
                assert!(front.len() == at && front.iter().eq(expected), "{at} of {len}");
                front.push(7);
                assert_eq!((front.len(), front.last()), (at + 1, Some(&7)));
            }
            assert!(chunks.into_iter().eq(expected), "{len}");
        }
    }
}
