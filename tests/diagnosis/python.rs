//! What other programs compute, through their Python modules.

use std::env;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{Dir, Ended};
use crate::json;

/// The interpreter with that module, if there is one. Where it must be there, its absence is a failure.
pub(crate) fn python_with(module: &str) -> Option<String> {
    let python = env::var("PAGESNIFF_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    let is_required = env::var("PAGESNIFF_REQUIRE_PYTHON").is_ok_and(|value| value == "1");
    assert!(
        !is_required,
        "{python} has no module {module}: .ci/setup installs it, PAGESNIFF_PYTHON names the interpreter"
    );
    eprintln!("SKIPPED: {python} has no module {module}");
    None
}

/// Runs a program in the directory. What it reads from standard input and what it prints is JSON.
pub(crate) fn run_python(python: &str, program: &str, (directory, input): (&Dir, &Value)) -> Value {
    directory.write("input.json", input.to_string().as_bytes());
    let mut command = Command::new(python);
    command.current_dir(directory.path("")).args(["-c", program]);
    let input = std::fs::File::open(directory.path("input.json")).unwrap();
    json(&Ended::from(command.stdin(input).output().unwrap()))
}
