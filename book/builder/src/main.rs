//! Writes the HTML of the book with the library of mdBook, so that nothing has to be installed.

use std::path::PathBuf;

use anyhow::{Context, Result};
use mdbook_driver::MDBook;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [root, target] = arguments.as_slice() else {
        anyhow::bail!("usage: mongo-patterns-book-builder <book> <target>");
    };
    let mut book = MDBook::load(root).with_context(|| format!("reading the book in {}", root.display()))?;
    book.config.build.build_dir = std::path::absolute(target)?;
    book.build().context("writing the book")
}
