//! Runs the tests of a program and prints their results in the format of Rust's test programs.

use std::future::Future;

/// The user of the server.
pub const USER: &str = "admin";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("set {name}"))
}

/// Host and port of the server's Bolt.
pub fn bolt() -> String {
    variable("BOLT")
}

/// The password of the user.
pub fn password() -> String {
    variable("PASSWORD")
}

/// Runs a test on a separate task, whose panic is its failure; prints its result and returns what went wrong.
pub async fn outcome<F, E>(name: &str, test: F) -> Option<String>
where
    F: Future<Output = Result<(), E>> + 'static,
    E: std::fmt::Debug + 'static,
{
    let done = tokio::task::LocalSet::new()
        .run_until(async { tokio::task::spawn_local(test).await })
        .await;
    let why = match done {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error:?}")),
        Err(panic) => Some(panic.to_string()),
    };
    println!(
        "test {name} ... {}",
        if why.is_some() { "FAILED" } else { "ok" }
    );
    why
}

/// Prints the summary and ends the process.
pub fn end(tests: usize, failures: &[(String, String)]) -> ! {
    for (name, why) in failures {
        println!("---- {name} ----\n{why}\n");
    }
    let state = if failures.is_empty() { "ok" } else { "FAILED" };
    let failed = failures.len();
    println!(
        "test result: {state}. {} passed; {failed} failed; 0 ignored",
        tests - failed
    );
    std::process::exit(i32::from(failed > 0))
}

/// Runs asynchronous tests in order; the exit code is 1 if one failed.
macro_rules! run {
    ($program:literal, $($test:ident),+ $(,)?) => {{
        let names = [$(stringify!($test)),+];
        println!("running {} tests", names.len());
        let mut failures = Vec::new();
        $(
            let name = format!("{}::{}", $program, stringify!($test));
            if let Some(why) = crate::harness::outcome(&name, $test()).await {
                failures.push((name, why));
            }
        )+
        crate::harness::end(names.len(), &failures)
    }};
}
pub(crate) use run;
