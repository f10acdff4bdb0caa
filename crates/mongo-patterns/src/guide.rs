#![doc = include_str!("../docs/choosing-a-pattern.md")]
//!
//! # The patterns
//!
#![cfg_attr(feature = "bucket", doc = "- [`bucket`](crate::bucket)")]
#![cfg_attr(feature = "outlier", doc = "- [`outlier`](crate::outlier)")]
#![cfg_attr(feature = "subset", doc = "- [`subset`](crate::subset)")]
#![cfg_attr(feature = "embedded", doc = "- [`embedded`](crate::embedded)")]
#![cfg_attr(feature = "history", doc = "- [`history`](crate::history)")]
#![cfg_attr(feature = "intervals", doc = "- [`intervals`](crate::intervals)")]
#![cfg_attr(feature = "reference", doc = "- [`reference`](mod@crate::reference)")]
#![cfg_attr(feature = "schema", doc = "- [`schema`](crate::schema)")]
#![cfg_attr(feature = "archive", doc = "- [`archive`](crate::archive)")]
#![cfg_attr(feature = "counters", doc = "- [`counters`](crate::counters)")]
