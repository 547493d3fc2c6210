//! Hashes whose values are part of a format, so they never change.

/// Java's `String.hashCode`: over UTF-16 code units, wrapping at 32 bits. Tag codes and key hashes are made of it.
pub fn java_string_hash(text: &str) -> i32 {
    if text.is_ascii() {
        return text.bytes().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)));
    }
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// FNV-1a, 64 bits, with a final mix: decides for the life of a store which log holds a queue.
pub fn stable_hash(text: &str) -> u64 {
    StableHash::of(text).finish()
}

/// The same of texts that follow each other, for who has many that begin alike.
#[derive(Clone, Copy, Debug)]
pub struct StableHash(u64);

impl StableHash {
    pub fn of(text: &str) -> StableHash {
        StableHash(0xcbf2_9ce4_8422_2325).then(text)
    }

    #[must_use]
    pub fn then(self, text: &str) -> StableHash {
        StableHash(text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
    }

    pub fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_hashes_are_javas() {
        for (text, hash) in
            [("", 0), ("a", 97), ("TagA", 2_598_919), ("Aa", 2112), ("BB", 2112), ("消息", 893_927), ("😀", 1_772_899)]
        {
            assert_eq!(java_string_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn stable_hashes_stay() {
        assert_eq!(stable_hash(""), 0xecba_3df2_c338_3c52);
        assert_eq!(StableHash::of("to").then("").then("pic").finish(), stable_hash("topic"));
    }
}
