//! Sets the cfg that cargo-fuzz sets, so that `cargo check` finds what the sources have for the targets alone.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rustc-cfg=fuzzing");
}
