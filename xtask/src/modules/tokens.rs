//! The tokens of Rust code, without comments.

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name or a keyword.
    Name(String),
    /// The content of a literal of text.
    Text(String),
    /// `::`.
    Colons,
    /// Any other character.
    Other(char),
}

impl Token {
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn is(&self, other: char) -> bool {
        *self == Self::Other(other)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        self.name() == Some(name)
    }
}

/// Returns the tokens of code that compiles.
pub(super) fn tokens(code: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (token, length) = if rest.starts_with("//") {
            (None, rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (None, block_comment(rest))
        } else if let Some((text, length)) = literal(rest) {
            (Some(Token::Text(text.to_owned())), length)
        } else if rest.starts_with("::") {
            (Some(Token::Colons), 2)
        } else if is_of_name(first) {
            let raw = rest.strip_prefix("r#").unwrap_or(rest);
            let name = &raw[..raw.find(|c| !is_of_name(c)).unwrap_or(raw.len())];
            (Some(Token::Name(name.to_owned())), rest.len() - raw.len() + name.len())
        } else {
            let token = (!first.is_whitespace()).then_some(Token::Other(first));
            (token, first.len_utf8())
        };
        found.extend(token);
        rest = &rest[length..];
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the length of the comment, which can contain others.
fn block_comment(code: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &code[at..];
        let Some(first) = rest.chars().next() else { return at };
        if rest.starts_with("/*") || rest.starts_with("*/") {
            depth += if first == '/' { 1 } else { -1 };
            at += 2;
        } else {
            at += first.len_utf8();
        }
        if depth == 0 {
            return at;
        }
    }
}

/// Returns the content of a literal of text or a character at the start of the code, and its length with its quotes.
fn literal(code: &str) -> Option<(&str, usize)> {
    if let Some(rest) = code.strip_prefix('\'') {
        // A lifetime has no second quote.
        let end = match rest.strip_prefix('\\') {
            Some(escaped) => 2 + escaped.get(1..)?.find('\'')?,
            None => rest.chars().next()?.len_utf8(),
        };
        return rest[end..].starts_with('\'').then(|| (&rest[..end], end + 2));
    }
    let unprefixed = code.strip_prefix(['b', 'c']).unwrap_or(code);
    if let Some(raw) = unprefixed.strip_prefix('r') {
        let text = raw.trim_start_matches('#');
        let quote = format!("\"{}", "#".repeat(raw.len() - text.len()));
        let content = text.strip_prefix('"')?;
        let end = content.find(&quote)?;
        return Some((&content[..end], code.len() - content.len() + end + quote.len()));
    }
    let content = unprefixed.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = content.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some((&content[..end], code.len() - content.len() + end + 1))
}

#[cfg(test)]
mod tests {
    use super::{Token, tokens};

    #[test]
    fn comments_and_the_contents_of_literals_are_no_names() {
        let code = r####"a // b::c
            /* d /* e */ f */ ::g "h::i \" j" r#"k "l" m"# b"n" 'o' '\'' '"' <'p> r#mod"####;
        let found = tokens(code);
        let names: Vec<&str> = found.iter().filter_map(Token::name).collect();
        assert_eq!(names, ["a", "g", "p", "mod"]);
        let texts = found.iter().filter_map(|token| match token {
            Token::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        assert_eq!(texts, ["h::i \\\" j", "k \"l\" m", "n", "o", "\\'", "\""]);
    }
}
