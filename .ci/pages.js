// A person at the pages of `rind serve`, in a real browser. Run by `pages`, with a folder for everything that is written.
"use strict";
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const assert = require("node:assert/strict");
const { startServer, withBrowser } = require("./pages-browser.js");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const folder = process.argv[2];
const pictures = process.env.RIND_PICTURES;
const COMMAND = "echo '<img src=x onerror=alert(1)>' > made";
// The answers of the model, by the input that they follow.
const SCRIPT = `
[[reply]]
when = { contains = "run it", step = 1 }
text = "I run <b>it</b> now."
tool_calls = [{ name = "bash", arguments = { command = ${JSON.stringify(COMMAND)} } }]
times = 0
[[reply]]
when = { contains = "run it", step = 2 }
text = "It ran."
times = 0
[[reply]]
when = { contains = "watch it", step = 1 }
tool_calls = [{ name = "bash", arguments = { command = "echo half way; until [ -e go ]; do sleep 0.1; done; rm go" } }]
times = 0
[[reply]]
when = { contains = "watch it", step = 2 }
text = "It ended."
times = 0
[[reply]]
when = { contains = "take long", step = 1 }
text = "One step."
tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
delay_ms = 1500
times = 0
[[reply]]
when = { contains = "and be brief" }
text = "Steered."
times = 0
[[reply]]
when = { contains = "look" }
text = "I see a dot."
times = 0
[[reply]]
when = { contains = "never end" }
text = "late"
delay_ms = 600000
times = 0
`;

// A hook that takes its time and adds a note: the person finds it by its time.
const CONFIG = `
[hooks.scripts.slow-guard]
point = "pre-tool"
command = ["sh", "-c", "sleep 0.4; echo '{\\"note\\": \\"looked at for long\\"}'"]
`;

async function main() {
  const work = path.join(folder, "work");
  fs.mkdirSync(work);
  const other = path.join(fs.realpathSync(folder), "other");
  fs.mkdirSync(other);
  fs.writeFileSync(path.join(work, "a.txt"), "alpha\n");
  fs.writeFileSync(path.join(folder, "script.toml"), SCRIPT);
  const home = path.join(folder, "rind");
  fs.mkdirSync(path.join(home, "config"), { recursive: true });
  fs.writeFileSync(path.join(home, "config", "config.toml"), CONFIG);
  const env = { PATH: process.env.PATH, HOME: folder, RIND_HOME: home, LANG: "C.UTF-8" };
  const more = ["--provider", "scripted", "--script", path.join(folder, "script.toml")];
  const args = ["serve", "--listen", "127.0.0.1:0", "--also-workspace", other, ...more];
  const server = await startServer(process.env.RIND, args, { cwd: work, env });
  await withBrowser([server], (browser) => person(browser, server.address, work, other, env));
  console.log("pages: all passed");
}

let n_pictures = 0;

// Checks a page with axe, and keeps its picture.
async function look(page, name) {
  // The policy of the page forbids scripts of others: they run in the world of the driver.
  const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] }).then((all) =>
    all.violations.map((one) => one.id + ": " + one.nodes.map((node) => node.target + " " + node.failureSummary).join("; ")))`);
  assert.deepEqual(found, [], `axe on ${name}`);
  const width = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  assert.equal(width, 0, `${name} is wider than the window`);
  if (pictures) {
    n_pictures += 1;
    await page.screenshot({ path: path.join(pictures, `${n_pictures}-${name}.png`), fullPage: true });
  }
}

async function person(browser, address, work, other, env) {
  for (const [name, options] of [
    ["wide", { viewport: { width: 1100, height: 800 } }],
    ["narrow-dark", { viewport: { width: 390, height: 800 }, colorScheme: "dark" }],
  ]) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    const alerts = [];
    page.on("dialog", (dialog) => { alerts.push(dialog.message()); dialog.dismiss(); });
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(address);
    await look(page, `${name}-sessions`);

    // By keyboard alone: the skip link comes first, the text field takes the input.
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate("document.activeElement.textContent"), "Skip to content");
    await page.getByLabel("New session").fill("please run it");
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("I run <b>it</b> now.").waitFor();
    // The command comes whole and as text, and runs only after the yes.
    const question = page.locator(".question").first();
    await question.locator("pre").getByText("onerror=alert(1)").waitFor();
    assert.equal(await page.locator(".question img").count(), 0);
    assert.ok(!fs.existsSync(path.join(work, "made")));
    await look(page, `${name}-question`);
    await question.getByRole("button", { name: "Yes", exact: true }).click();
    await page.getByText("It ran.").waitFor();
    assert.equal(fs.readFileSync(path.join(work, "made"), "utf8"), "<img src=x onerror=alert(1)>\n");
    fs.rmSync(path.join(work, "made"));

    // A running turn takes a further word, and the next one is interrupted.
    const say = async (text) => {
      await page.locator("#say textarea").fill(text);
      await page.locator("#say").getByRole("button", { name: "Send" }).click();
    };
    // The output of a command is seen while it runs, and is gone when its call has ended.
    await say("watch it");
    await page.locator(".question").getByRole("button", { name: "Yes", exact: true }).click();
    await page.locator("#outputs").getByText("half way").waitFor();
    await look(page, `${name}-output`);
    fs.writeFileSync(path.join(work, "go"), "");
    await page.getByText("It ended.").waitFor();
    await page.locator("#outputs pre").waitFor({ state: "detached" });
    await say("take long");
    await page.getByRole("button", { name: "Interrupt" }).waitFor();
    await say("and be brief");
    await page.getByText("Steered.").waitFor();
    await say("never end");
    await page.getByRole("button", { name: "Interrupt" }).click();
    await page.getByText("cancelled").first().waitFor();
    await look(page, `${name}-session`);

    // An image is pasted, another chosen as a file, and one that is none is refused in words.
    const dot = fs.readFileSync(path.join(__dirname, "../tests/recorded/dot.png"));
    await page.locator("#say textarea").fill("look at this");
    await page.evaluate((bytes) => {
      const all = new DataTransfer();
      all.items.add(new File([new Uint8Array(bytes)], "pasted.png", { type: "image/png" }));
      const event = new ClipboardEvent("paste", { clipboardData: all, bubbles: true, cancelable: true });
      document.querySelector("#say textarea").dispatchEvent(event);
    }, [...dot]);
    assert.equal(await page.evaluate("document.querySelector('#say input[type=file]').files.length"), 1);
    await page.locator("#say").getByRole("button", { name: "Send" }).click();
    await page.locator("img.attached").first().waitFor();
    // The script may replace the turns meanwhile, so nothing waits for the image to hold still.
    await page.locator("img.attached").first().evaluate((image) => image.scrollIntoView());
    await page.waitForFunction("document.querySelector('img.attached').naturalWidth === 1");
    await look(page, `${name}-image`);
    const here = page.url();
    await page.locator("#say textarea").fill("and this");
    const svg = { name: "a.png", mimeType: "image/png", buffer: Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>") };
    await page.locator("#say input[type=file]").setInputFiles(svg);
    await page.locator("#say").getByRole("button", { name: "Send" }).click();
    await page.getByText("PNG, JPEG, GIF and WebP").waitFor();
    await look(page, `${name}-no-image`);
    await page.goto(here);

    // The slow hook is found by its time.
    const slow = await page.locator(".decision", { hasText: "slow-guard" }).first().textContent();
    assert.ok(Number(slow.match(/\(([\d.]+) ms\)/)[1]) >= 400, slow);

    // Only what failed, was refused or changed is left by the box; the entry of an item is one link away.
    const before = await page.locator(".items li:visible").count();
    await page.getByLabel("show only what failed, was refused or changed").check();
    assert.ok((await page.locator(".items li:visible").count()) < before);
    await page.getByLabel("show only what failed, was refused or changed").uncheck();
    const session = page.url().split("#")[0];
    await page.locator(".line a").first().click();
    await page.locator("pre").filter({ hasText: '"type"' }).waitFor();
    await look(page, `${name}-entry`);
    await page.goto(session);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator("ins").first().waitFor();
    await look(page, `${name}-diff`);
    for (const link of ["Questions", "Costs", "Plugins"]) {
      await page.getByRole("link", { name: link }).click();
      await page.getByRole("heading", { level: 1, name: link }).waitFor();
      await look(page, `${name}-${link.toLowerCase()}`);
    }
    const slowest = await page.getByRole("row", { name: "slow-guard" }).textContent();
    assert.ok(Number(slowest.match(/([\d.]+) ms/)[1]) >= 400, slowest);

    // The page as a file: no server, no script, nothing loaded.
    const file = path.join(folder, `${name}.html`);
    const id = session.split("/").pop();
    const shown = spawnSync(process.env.RIND, ["session", "show", id, "--html", file], { cwd: work, env, encoding: "utf8" });
    assert.equal(shown.status, 0, shown.stderr);
    const requested = [];
    const alone = await browser.newContext({ ...options, javaScriptEnabled: true, offline: true });
    const saved = await alone.newPage();
    saved.on("request", (request) => requested.push(request.url()));
    saved.on("dialog", (dialog) => { alerts.push(dialog.message()); dialog.dismiss(); });
    await saved.goto(`file://${file}`);
    await saved.getByText("Steered.").waitFor();
    assert.equal(requested.length, 1, `the file loads ${requested}`);
    await look(saved, `${name}-file`);

    // Reading needs no script.
    const plain = await browser.newContext({ ...options, javaScriptEnabled: false, storageState: await context.storageState() });
    const still = await plain.newPage();
    await still.goto(session);
    await still.getByText("Steered.").waitFor();
    // Neither does sending: a plain form begins a session in the other folder, with an image.
    await still.goto(new URL("/", address).href);
    await still.getByLabel("New session").fill("look without a script");
    await still.getByLabel("Folder").selectOption(other);
    await still.locator("input[type=file]").setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: dot });
    await still.getByRole("button", { name: "Start" }).click();
    await still.getByText(other).waitFor();
    await still.reload();
    await still.locator("img.attached").first().waitFor();

    assert.deepEqual(alerts, [], "a text of the model ran as code");
    assert.deepEqual(errors, [], "errors of the script of the page");
    for (const one of [context, alone, plain]) await one.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
