//! Tests of a whole log on real files.
