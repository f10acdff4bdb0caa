//! Opens the file: standard input or a path, decompressed, without a byte order mark.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, stdin};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::problem::unreadable;
use crate::failure::{Exit, Failure};

const BUFFER: usize = 1 << 20;

pub(super) type Input = Box<dyn BufRead + Send>;

/// Opens a file, or standard input for `-`.
pub(super) fn open(file: &Path) -> Result<Input, Failure> {
    let failed = |error| Failure::usage(format!("the file {}: {error}", file.display()));
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(stdin())
    } else if file.is_dir() {
        return Err(Failure::usage(format!("the file {} is a directory", file.display())));
    } else {
        Box::new(File::open(file).map_err(failed)?)
    };
    text(Box::new(BufReader::with_capacity(BUFFER, input)))
}

/// Decompresses by content, because names of files are often wrong.
fn text(input: Input) -> Result<Input, Failure> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
    let unreadable = |error: io::Error| unreadable(1, &error);
    let (head, input) = peek(input, ZSTD.len()).map_err(unreadable)?;
    let input: Input = if head.starts_with(GZIP) {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input)))
    } else if head.starts_with(ZSTD) {
        let decoder = Decoder::with_buffer(input).map_err(unreadable)?;
        Box::new(BufReader::with_capacity(BUFFER, decoder))
    } else {
        input
    };
    let (head, mut input) = peek(input, 3).map_err(unreadable)?;
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(Failure::new(Exit::Findings, "the file is UTF-16: convert it to UTF-8"));
    }
    if head == "\u{feff}".as_bytes() {
        input.read_exact(&mut [0; 3]).map_err(unreadable)?;
    }
    Ok(input)
}

/// Returns the first bytes, and an input that still has them. A pipe can return fewer bytes in one read.
fn peek(mut input: Input, length: usize) -> io::Result<(Vec<u8>, Input)> {
    let mut head = Vec::with_capacity(length);
    input.by_ref().take(length as u64).read_to_end(&mut head)?;
    let input = Box::new(Cursor::new(head.clone()).chain(input));
    Ok((head, input))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn read(bytes: Vec<u8>) -> Result<String, Failure> {
        let mut read = String::new();
        let input = BufReader::with_capacity(1, Cursor::new(bytes));
        text(Box::new(input))?
            .read_to_string(&mut read)
            .map_err(|error| unreadable(1, &error))?;
        Ok(read)
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compression_is_detected_and_a_byte_order_mark_removed() {
        let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
        for bytes in [
            b"a,b\n".to_vec(),
            "\u{feff}a,b\n".into(),
            gzip("a,b\n"),
            gzip("\u{feff}a,b\n"),
            [gzip("a,"), gzip("b\n")].concat(),
            zstd("a,b\n"),
            [zstd("a,"), zstd("b\n")].concat(),
        ] {
            assert_eq!(read(bytes).unwrap(), "a,b\n");
        }
        assert_eq!(read(Vec::new()).unwrap(), "");
        assert_eq!(read(b"a".to_vec()).unwrap(), "a");
    }

    #[test]
    fn incomplete_data_and_utf_16_are_errors() {
        let mut cut = gzip(&"x".repeat(1000));
        cut.truncate(cut.len() - 9);
        let incomplete = read(cut).unwrap_err().text;
        assert!(incomplete.contains("incomplete"), "{incomplete}");
        let mut cut = zstd::encode_all(&[7; 1000][..], 1).unwrap();
        cut.truncate(cut.len() - 3);
        let incomplete = read(cut).unwrap_err().text;
        assert!(incomplete.contains("incomplete"), "{incomplete}");
        let utf_16 = read(b"\xff\xfea\0".to_vec()).unwrap_err().text;
        assert!(utf_16.contains("UTF-8"), "{utf_16}");
    }
}
