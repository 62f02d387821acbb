// A person at the pages of a front whose sessions are at workers, in a real browser: the worker that asks is killed, the person
// answers the question of the next one, and the turn ends there. Run by `pages-nats`, with a folder for everything that is written.
"use strict";
const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const assert = require("node:assert/strict");
const { startServer, withBrowser } = require("./pages-browser.js");

const folder = process.argv[2];
const SCRIPT = `
[[reply]]
when = { contains = "run it", step = 1 }
text = "I run it now."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
times = 0
[[reply]]
when = { contains = "run it", step = 2 }
text = "It was cut off, once more."
tool_calls = [{ name = "bash", arguments = { command = "echo made >> made" } }]
times = 0
[[reply]]
when = { contains = "run it", step = 3 }
text = "It ran."
times = 0
`;

async function main() {
  const work = path.join(folder, "work");
  const nats = path.join(folder, "nats");
  for (const one of [work, nats, path.join(folder, "managed")]) fs.mkdirSync(one);
  fs.writeFileSync(path.join(folder, "script.toml"), SCRIPT);
  const env = {
    PATH: process.env.PATH, HOME: folder, RIND_HOME: path.join(folder, "rind"), RIND_MANAGED: path.join(folder, "managed"), LANG: "C.UTF-8",
  };
  const ports = path.join(folder, "ports");
  fs.mkdirSync(ports);
  const server = spawn(process.env.NATS_SERVER, ["-js", "-a", "127.0.0.1", "-p", "-1", "-sd", nats, "--ports_file_dir", ports]);
  const started = [server];
  try {
    const url = await until("the server of NATS", () => {
      const [file] = fs.readdirSync(ports);
      return file && JSON.parse(fs.readFileSync(path.join(ports, file), "utf8")).nats[0];
    });
    const shared = ["--nats", url, "--tenant", "t"];
    const script = ["--script", path.join(folder, "script.toml")];
    const rind = (...args) => spawnSync(process.env.RIND, args, { cwd: work, env, encoding: "utf8" });
    const status = () => JSON.parse(rind("cluster", "status", ...shared, "--json").stdout);
    for (const n of [1, 2]) {
      started.push(spawn(process.env.RIND, ["worker", ...shared, "--ask", "120", ...script], { cwd: work, env, stdio: "ignore" }));
      await until(`worker ${n}`, () => status().workers.length === n);
    }
    const front = await startServer(process.env.RIND, ["serve", ...shared, "--listen", "127.0.0.1:0", ...script], { cwd: work, env });
    await withBrowser([front], (browser) => person(browser, front.address, rind, shared, status, work));
  } finally {
    for (const one of started) one.kill("SIGKILL");
  }
  console.log("pages-nats: all passed");
}

async function person(browser, address, rind, shared, status, work) {
  const page = await browser.newPage();
  await page.goto(address);
  const sent = rind("cluster", "send", ...shared, "--session", "order-17", "please run it");
  assert.equal(sent.status, 0, sent.stderr);
  await until("the session", async () => {
    await page.goto(new URL("/sessions/order-17", address).href);
    return (await page.locator(".question").count()) === 1;
  });
  await page.locator(".question pre").getByText("echo made >> made").waitFor();
  const form = () => page.locator(".question form").first().getAttribute("action");
  const first = await form();
  const busy = status().workers.filter((worker) => worker.busy === 1);
  assert.equal(busy.length, 1);
  process.kill(Number(busy[0].name.split("-").pop()), "SIGKILL");
  // The page stays open: the question of the dead worker goes away, and that of the next one comes.
  await until("the question of the other worker", async () => (await page.locator(".question").count()) === 1 && (await form()) !== first);
  assert.ok(!fs.existsSync(path.join(work, "made")));
  await page.locator(".question").getByRole("button", { name: "Yes", exact: true }).click();
  await page.getByText("It ran.").waitFor();
  assert.equal(fs.readFileSync(path.join(work, "made"), "utf8"), "made\n");
  // The transcript tells of the call that was cut off.
  await page.getByText("cut off before this call began; it did nothing").first().waitFor();
  if (process.env.RIND_PICTURES) await page.screenshot({ path: path.join(process.env.RIND_PICTURES, "front.png"), fullPage: true });
}

// Waits until a check returns something, at most a minute.
async function until(what, check) {
  const end = Date.now() + 60000;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((go) => setTimeout(go, 100));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
