//! Runs the commands of the tutorial in the book, and compares what they print with the tutorial.
//!
//! A block of code with the language `console` has commands, after `$ `, and what they print to their standard output.
//! `...` stands for any text, and a line of it for any lines. The last command of a block with the attribute
//! `background` keeps running until the end, as in a terminal of its own. If it prints an `export`, the later commands get
//! the variable.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{remove_package_variables, run as run_process};

const TUTORIAL: &str = "book/src/tutorial.md";
/// The commands that made this checkout.
const CHECKOUT: [&str; 2] = [
    "git clone https://github.com/mongo-patterns/mongo-patterns",
    "cd mongo-patterns",
];
/// The address of the service in the tutorial. Another program may use it here, so the service gets a free port.
const ADDRESS: &str = "127.0.0.1:8080";
const FREE: &str = "127.0.0.1:0";

/// A command with the lines that it prints.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    printed: Vec<String>,
    background: bool,
}

/// Runs all commands in their order.
pub(crate) fn run() -> Result<()> {
    let text = std::fs::read_to_string(TUTORIAL).with_context(|| format!("reading {TUTORIAL}"))?;
    let steps = steps(&text)?;
    ensure!(steps.len() > CHECKOUT.len(), "{TUTORIAL} has no commands");
    // Not the server of the environment: the tutorial starts one.
    let mut terminal = Terminal::new();
    for step in &steps {
        if CHECKOUT.contains(&step.command.as_str()) {
            continue;
        }
        println!("$ {}", step.command);
        let ran = match step.background {
            true => terminal.start(step),
            false => terminal.run(step),
        };
        ran.with_context(|| format!("{TUTORIAL}: `{}`", step.command))?;
    }
    terminal.stop()
}

/// The variables and the running programs of a reader.
struct Terminal {
    variables: BTreeMap<String, String>,
    /// The address of the service.
    address: String,
    running: Vec<Child>,
}

impl Terminal {
    fn new() -> Self {
        Self {
            variables: BTreeMap::from([("ADDRESS".to_owned(), FREE.to_owned())]),
            address: ADDRESS.to_owned(),
            running: Vec::new(),
        }
    }

    fn command(&self, step: &Step) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &step.command.replace(ADDRESS, &self.address)]);
        remove_package_variables(&mut command);
        command.env_remove("MONGODB_URI").envs(&self.variables);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, step: &Step) -> Result<()> {
        let output = self.command(step).stderr(Stdio::inherit()).output()?;
        let printed = String::from_utf8(output.stdout)?.replace(&self.address, ADDRESS);
        ensure!(output.status.success(), "{}; it printed\n{printed}", output.status);
        let printed: Vec<&str> = printed.trim_end().lines().collect();
        let expected: Vec<&str> = step.printed.iter().map(String::as_str).collect();
        ensure!(
            matches_lines(&printed, &expected),
            "it printed\n{}\nand not\n{}",
            printed.join("\n"),
            expected.join("\n")
        );
        Ok(())
    }

    /// Starts a program, and waits until it has printed the lines.
    fn start(&mut self, step: &Step) -> Result<()> {
        let mut child = self.command(step).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the output is piped")?;
        self.running.push(child);
        let mut lines = BufReader::new(stdout).lines();
        for expected in &step.printed {
            let line = lines.next().context("it ended")??;
            if let Some((_, address)) = line.split_once("http://").filter(|_| expected.contains(ADDRESS)) {
                address.clone_into(&mut self.address);
            }
            let line = line.replace(&self.address, ADDRESS);
            ensure!(matches_line(&line, expected), "it printed\n{line}\nand not\n{expected}");
            if let Some((name, value)) = line.strip_prefix("export ").and_then(|line| line.split_once('=')) {
                self.variables
                    .insert(name.to_owned(), value.trim_matches('\'').to_owned());
            }
        }
        // Otherwise a program that prints more would block.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(())
    }

    /// Stops the programs with Ctrl-C, the last one first. All must end without an error.
    fn stop(mut self) -> Result<()> {
        while let Some(mut child) = self.running.pop() {
            run_process(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
            let status = child.wait()?;
            ensure!(status.success(), "a program in the background ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Terminal {
    /// Ends the programs when a command has failed.
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the commands of a page.
fn steps(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block: Option<(bool, usize)> = None;
    for line in text.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(language)) if language.starts_with("console") => {
                block = Some((language.contains("background"), steps.len()));
            }
            // Other code.
            (None, Some(language)) if !language.is_empty() => block = Some((false, usize::MAX)),
            (None, _) => {}
            (Some((background, first)), Some(_)) => {
                if let Some(last) = steps.get_mut(first..).and_then(<[Step]>::last_mut) {
                    last.background = background;
                }
                block = None;
            }
            (Some((_, usize::MAX)), None) => {}
            (Some((_, first)), None) => match (line.strip_prefix("$ "), steps.get_mut(first..)) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    printed: Vec::new(),
                    background: false,
                }),
                (None, Some([.., step])) if step.command.ends_with('\\') => {
                    step.command.pop();
                    step.command.push_str(line.trim_start());
                }
                (None, Some([.., step])) => step.printed.push(line.to_owned()),
                (None, _) => bail!("a block of commands begins with `{line}`, which is not a command"),
            },
        }
    }
    Ok(steps)
}

/// Compares lines with those of the page, in which a line of `...` stands for any number of lines.
fn matches_lines(printed: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skipped| matches_lines(&printed[skipped..], rest)),
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => matches_line(first, line) && matches_lines(others, rest),
            None => false,
        },
    }
}

/// Compares a line with one of the page, in which `...` stands for any text.
fn matches_line(printed: &str, expected: &str) -> bool {
    let parts: Vec<&str> = expected.split("...").collect();
    let [start, middle @ .., end] = parts.as_slice() else {
        return printed == expected;
    };
    let Some(mut rest) = printed.strip_prefix(start) else {
        return false;
    };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_page_are_found() {
        let page = "a\n```console\n$ one\nits line\n$ two \\\n    three\n```\n```text\n$ no\n```\n```console,background\n$ four\nfive\n```\n";
        let step = |command: &str, printed: &[&str], background| Step {
            command: command.to_owned(),
            printed: printed.iter().map(|line| (*line).to_owned()).collect(),
            background,
        };
        let expected = [
            step("one", &["its line"], false),
            step("two three", &[], false),
            step("four", &["five"], true),
        ];
        assert_eq!(steps(page).unwrap(), expected);
        assert!(steps("```console\nno command\n```\n").is_err());
    }

    #[test]
    fn dots_stand_for_any_text() {
        for (printed, expected) in [
            ("a b c", "a ... c"),
            ("ab", "ab"),
            ("a1b2c", "a...b...c"),
            ("ac", "a...c"),
        ] {
            assert!(matches_line(printed, expected), "{expected}");
        }
        for (printed, expected) in [("a b", "a"), ("a", "a b"), ("abc", "a...d"), ("b", "a...b")] {
            assert!(!matches_line(printed, expected), "{expected}");
        }
        assert!(matches_lines(&["a", "b", "c"], &["...", "c"]));
        assert!(matches_lines(&["a"], &["a", "..."]));
        assert!(!matches_lines(&["a", "b"], &["a"]));
        assert!(!matches_lines(&["a"], &["...", "b"]));
    }
}
