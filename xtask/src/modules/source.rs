//! What a module declares and names, read from its tokens.

use std::collections::BTreeSet;

use super::tokens::Token;

/// A module: a file, or a block in one.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The submodules, which are files or blocks.
    pub(super) children: Vec<Child>,
    /// What it imports.
    pub(super) imports: Vec<Import>,
    /// The paths in its code with more than one name.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// All names in its code, without those in imports.
    pub(super) names: BTreeSet<String>,
    /// The methods that its code calls, except for those of `conn`.
    pub(super) methods: BTreeSet<String>,
    /// The items that it defines.
    pub(super) items: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) source: Source,
}

#[derive(Debug)]
pub(super) enum Source {
    /// A file, whose path an attribute can name.
    File(Option<String>),
    Block(Module),
}

/// A name that an import brings into a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name, or `None` for a glob.
    pub(super) name: Option<String>,
    /// Whether other modules can be meant to use it: it has a visibility.
    pub(super) is_export: bool,
}

/// Reads a file, without its unit tests, which may use what they like.
pub(super) fn read(tokens: &[Token]) -> Module {
    let mut reader = Reader { tokens, at: 0 };
    reader.module()
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self, ahead: usize) -> Option<&'t Token> {
        self.tokens.get(self.at + ahead)
    }

    fn is(&self, ahead: usize, other: char) -> bool {
        self.peek(ahead).is_some_and(|token| token.is(other))
    }

    fn name(&self, ahead: usize) -> Option<&'t str> {
        self.peek(ahead).and_then(Token::name)
    }

    /// Reads up to the brace that closes the module, or the end.
    fn module(&mut self) -> Module {
        let mut module = Module::default();
        let (mut depth, mut is_export, mut file) = (0_usize, false, None);
        while let Some(token) = self.peek(0) {
            match token {
                Token::Other('#') if self.is(1, '[') || (self.is(1, '!') && self.is(2, '[')) => {
                    self.at += if self.is(1, '!') { 2 } else { 1 };
                    let attribute = self.group();
                    let has = |name: &str| attribute.iter().any(|token| token.is_name(name));
                    if has("cfg") && has("test") && !has("not") {
                        self.skip_item();
                    } else if let [_, path, _, Token::Text(text), _] = attribute
                        && path.is_name("path")
                    {
                        file = Some(text.clone());
                    }
                    continue;
                }
                Token::Other('{') => depth += 1,
                Token::Other('}') if depth == 0 => break,
                Token::Other('}') => depth -= 1,
                Token::Name(name) => match name.as_str() {
                    "pub" => {
                        self.at += 1;
                        if self.is(0, '(') {
                            self.group();
                        }
                        is_export = true;
                        continue;
                    }
                    "use" if !self.is(1, '<') => {
                        self.at += 1;
                        self.tree(&[], is_export, &mut module.imports);
                    }
                    "mod" if self.name(1).is_some() && self.is(2, ';') => {
                        let name = self.name(1).unwrap_or_default().to_owned();
                        let source = Source::File(file.take());
                        module.children.push(Child { name, source });
                        self.at += 2;
                    }
                    "mod" if self.name(1).is_some() && self.is(2, '{') => {
                        let name = self.name(1).unwrap_or_default().to_owned();
                        self.at += 3;
                        let source = Source::Block(self.module());
                        module.children.push(Child { name, source });
                    }
                    _ => {
                        self.path(&mut module);
                        is_export = false;
                        continue;
                    }
                },
                Token::Text(_) | Token::Colons | Token::Other(_) => {}
            }
            is_export = false;
            self.at += 1;
        }
        module
    }

    /// Reads a path, which can be a single name.
    fn path(&mut self, module: &mut Module) {
        let before = |distance: usize| self.tokens.get(self.at.wrapping_sub(distance));
        let is_part = before(1).is_some_and(|token| *token == Token::Colons || token.is('.') || token.is('$'));
        let keywords = ["const", "enum", "fn", "static", "struct", "trait", "type"];
        let is_item = before(1).is_some_and(|token| keywords.iter().any(|keyword| token.is_name(keyword)))
            || before(2).is_some_and(|token| token.is_name("macro_rules"));
        // `conn.find_one(..)` or `Conn::new().find_one(..)`
        let is_new =
            before(2).is_some_and(|token| token.is(')')) && before(4).is_some_and(|token| token.is_name("new"));
        let is_of_conn = is_new || before(2).is_some_and(|token| token.is_name("conn"));
        if let Some(name) = self.name(0)
            && before(1).is_some_and(|token| token.is('.'))
            && self.is(1, '(')
            && !is_of_conn
        {
            module.methods.insert(name.to_owned());
        }
        let mut path = Vec::new();
        while let Some(name) = self.name(0) {
            path.push(name.to_owned());
            self.at += 1;
            if self.peek(0) != Some(&Token::Colons) || self.name(1).is_none() {
                break;
            }
            self.at += 1;
        }
        if is_item {
            module.items.extend(path.first().cloned());
        }
        if !is_part {
            module.names.extend(path.first().cloned());
            if path.len() > 1 {
                module.paths.insert(path);
            }
        }
    }

    /// Reads the tree of an import, up to its end.
    fn tree(&mut self, base: &[String], is_export: bool, imports: &mut Vec<Import>) {
        let mut path = base.to_vec();
        let mut name = None;
        loop {
            match self.peek(0) {
                Some(Token::Colons) => {}
                Some(Token::Other('*')) => {
                    imports.push(Import {
                        path: std::mem::take(&mut path),
                        name: None,
                        is_export,
                    });
                    self.at += 1;
                    return;
                }
                Some(Token::Other('{')) => {
                    self.at += 1;
                    while !self.is(0, '}') && self.peek(0).is_some() {
                        self.tree(&path, is_export, imports);
                        if self.is(0, ',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Some(Token::Name(alias)) if alias == "as" => {
                    name = self.name(1).map(str::to_owned);
                    self.at += 1;
                }
                Some(Token::Name(part)) if part == "self" && !path.is_empty() => {}
                Some(Token::Name(part)) => path.push(part.clone()),
                _ => break,
            }
            self.at += 1;
        }
        let name = name.or_else(|| path.last().cloned());
        imports.push(Import { path, name, is_export });
    }

    /// Reads a group of brackets, of which the first is next. Returns its tokens.
    fn group(&mut self) -> &'t [Token] {
        let start = self.at;
        let mut depth = 0;
        while let Some(token) = self.peek(0) {
            self.at += 1;
            match token {
                Token::Other('(' | '[' | '{') => depth += 1,
                Token::Other(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        &self.tokens[start..self.at]
    }

    /// Skips an item, a field or a statement.
    fn skip_item(&mut self) {
        loop {
            match self.peek(0) {
                Some(Token::Other('(' | '[')) => {
                    self.group();
                }
                Some(Token::Other('{')) => {
                    self.group();
                    return;
                }
                Some(Token::Other(';' | ',')) => {
                    self.at += 1;
                    return;
                }
                Some(Token::Other('}')) | None => return,
                Some(_) => self.at += 1,
            }
        }
    }
}
