//! A list that grows without moving what is in it. A `Vec` that doubles copies megabytes in one step, and the memory it
//! gets for that is cleared by the kernel in the same step: milliseconds in which a core does nothing else.

use super::extent_file::CHUNK_COUNT;

const CHUNK_LEN: usize = CHUNK_COUNT as usize;
/// There is memory for so many from the first on: most lists of many queues get about as many.
const LEN_MIN: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunks<T> {
    /// Of [`CHUNK_COUNT`] items each.
    full: Vec<Vec<T>>,
    /// The last items, none of an empty list only. It lies here, since most lists have no other.
    last: Vec<T>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Chunks<T> {
        Chunks { full: Vec::new(), last: Vec::new() }
    }
}

impl<T> Chunks<T> {
    pub(crate) fn push(&mut self, item: T) {
        if self.last.len() == CHUNK_LEN {
            // Only the first grows as it is needed.
            self.full.push(std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK_LEN)));
        } else if self.last.capacity() == 0 {
            self.last.reserve(LEN_MIN);
        }
        self.last.push(item);
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * CHUNK_LEN + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.last.last()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Pieces of [`CHUNK_COUNT`] items, the last of them shorter.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[T]> {
        let last = Some(&self.last).filter(|last| !last.is_empty());
        self.full.iter().chain(last).map(|chunk| &chunk[..])
    }

    /// Items from `at` on: those of its chunk, none behind the end.
    pub(crate) fn piece_from(&self, at: usize) -> &[T] {
        if at < self.len() { &self.chunk(at / CHUNK_LEN)[at % CHUNK_LEN..] } else { &[] }
    }

    /// Takes out the items from `at` on.
    pub(crate) fn split_off(&mut self, at: usize) -> Chunks<T>
    where
        T: Copy,
    {
        let tail = self.iter().skip(at).copied().collect();
        let last = at.saturating_sub(1) / CHUNK_LEN;
        if last < self.full.len() {
            self.last = std::mem::take(&mut self.full[last]);
            self.full.truncate(last);
        }
        self.last.truncate(at - last * CHUNK_LEN);
        tail
    }

    /// The number of items in front, for which alone the predicate holds.
    pub(crate) fn partition_point(&self, holds: impl Fn(&T) -> bool) -> usize {
        let behind = self.full.partition_point(|chunk| chunk.last().is_some_and(&holds));
        behind * CHUNK_LEN + self.chunk(behind).partition_point(holds)
    }

    fn chunk(&self, number: usize) -> &[T] {
        self.full.get(number).unwrap_or(&self.last)
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
        assert!(at < self.len(), "item {at} of {}", self.len());
        &self.chunk(at / CHUNK_LEN)[at % CHUNK_LEN]
    }
}

impl<T> IntoIterator for Chunks<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::iter::Flatten<std::vec::IntoIter<Vec<T>>>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.full.into_iter().flatten().chain(self.last)
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
