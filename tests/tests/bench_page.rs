//! The page of a run as a real browser shows it, light and dark: it is drawn, and nothing goes wrong in it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::bench::{RUN_WITHIN, assert_clean_or_void, ending, run};
use harness::folder::Folder;
use harness::left_out;
use harness::picture::Picture;
use harness::process::Dev;
use harness::program;

/// Programs that can show a page without a screen, the first that is there.
const BROWSERS: [&str; 5] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"];
const SHOWN_WITHIN: Duration = Duration::from_secs(60);
const WINDOW: (u32, u32) = (1200, 1600);

fn browser() -> Option<&'static str> {
    let found = BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "no browser is there: chromium-headless-shell is missing"
        );
        left_out("the page in a browser", "there is none (Debian: apt-get install chromium-headless-shell)");
    }
    found
}

/// What a browser shows of a file, and what it said meanwhile.
fn shown(browser: &str, folder: &Path, file: &Path, is_dark: bool) -> (Picture, String) {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let picture = folder.join(format!("{name}-{}.png", if is_dark { "dark" } else { "light" }));
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--v=0",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("--blink-settings=preferredColorScheme={}", if is_dark { 0 } else { 1 }));
    command.arg(format!("--window-size={},{}", WINDOW.0, WINDOW.1));
    command.arg(format!("--screenshot={}", picture.display())).arg(format!("file://{}", file.display()));
    let finished = program::run_command(command, SHOWN_WITHIN);
    assert!(finished.code == Some(0), "{}", finished.text());
    let bytes = fs::read(&picture).unwrap_or_else(|error| panic!("no screenshot ({error}): {}", finished.text()));
    (Picture::read(&bytes).expect("the browser writes a PNG"), finished.stderr)
}

#[test]
fn a_page_is_drawn_light_and_dark_without_a_complaint() {
    let Some(browser) = browser() else { return };
    let dev = Dev::new("bench-page");
    let _running = dev.start();
    let folder = Folder::new("bench-page-out");
    let out = folder.path().join("run");
    let arguments = ["run", "quick", "--set", "duration=3s", "--set", "warmup=200ms"];
    assert_clean_or_void(&run(&arguments, &dev.broker, &out));
    let svg = folder.path().join("svg");
    let report = ["bench", "report", out.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let finished = program::run(&report, RUN_WITHIN);
    assert!(finished.code == Some(0) && finished.stderr.contains("13 pictures in"), "{}", finished.text());
    let png = folder.path().join("png");
    let finished =
        program::run(&["bench", "report", out.to_str().unwrap(), "--png", png.to_str().unwrap()], RUN_WITHIN);
    if finished.code == Some(0) {
        assert_eq!(ending(&png, ".png").len(), 13);
    } else {
        assert!(finished.stderr.contains("--features png") && !png.exists(), "{}", finished.text());
    }
    let page = out.join("report.html");
    let drawings = ending(&svg, ".svg");
    assert_eq!(drawings.len(), 13, "{drawings:?}");
    let mut lightness = Vec::new();
    for is_dark in [false, true] {
        let (picture, said) = shown(browser, folder.path(), &page, is_dark);
        assert_eq!((picture.width, picture.height), WINDOW);
        assert!(!said.contains("CONSOLE"), "the page complains: {said}");
        // Paper, words, rules, and lines of several colours.
        let colours = picture.colours();
        assert!(colours > 50, "{colours} colours");
        let paper = picture.commonest();
        let inked = picture.share_unlike(paper);
        assert!((0.02..0.9).contains(&inked), "{inked} of it differ from its paper {paper:?}");
        lightness.push(paper.iter().map(|part| u32::from(*part)).sum::<u32>());
    }
    assert!(lightness[0] > 600 && lightness[1] < 200, "light and dark papers: {lightness:?}");
    // A file of its own is drawn as well, on white.
    let (picture, said) = shown(browser, folder.path(), &drawings[0], false);
    assert!(!said.contains("CONSOLE") && picture.colours() > 10, "{said}");
}
