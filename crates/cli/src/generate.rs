//! Generates completions and manual pages.

use std::io::{Write, stdout};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::{Exit, Failure, Outcome};

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "mongo-patterns", &mut script);
    stdout().lock().write_all(&script)?;
    Ok(Exit::Success)
}

pub(crate) fn man(directory: Option<&Path>) -> Outcome {
    match directory {
        Some(directory) => {
            let failed = |error| Failure::usage(format!("the directory {}: {error}", directory.display()));
            clap_mangen::generate_to(Args::command(), directory).map_err(failed)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page)?;
            stdout().lock().write_all(&page)?;
        }
    }
    Ok(Exit::Success)
}
