// The server and the browser of the scripts that try pages.
"use strict";
const { spawn } = require("node:child_process");
const { chromium } = require("playwright-core");

// Starts `rind serve`; its `address` is the link that it prints.
async function startServer(program, args, options) {
  const process = spawn(program, args, options);
  const server = { process, printed: "" };
  server.address = await new Promise((found, failed) => {
    const take = (bytes) => {
      server.printed += bytes;
      const address = server.printed.match(/http:\/\/\S*login\S*/);
      if (address) found(address[0]);
    };
    process.stdout.on("data", take);
    process.stderr.on("data", take);
    process.on("exit", (code) => failed(new Error(`the server ended with ${code}: ${server.printed}`)));
  });
  return server;
}

// Opens Chromium for a person. When the person fails, the error has the texts of the open pages and of the servers.
async function withBrowser(servers, person) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  try {
    await person(browser);
  } catch (error) {
    const open = browser.contexts().flatMap((context) => context.pages());
    const texts = await Promise.all(open.map((page) => page.locator("body").innerText()));
    const printed = servers.map((server) => server.printed);
    throw new Error([...texts, ...printed].join("\n---\n"), { cause: error });
  } finally {
    await browser.close();
    for (const server of servers) {
      server.process.removeAllListeners("exit");
      server.process.kill("SIGTERM");
    }
  }
}

module.exports = { startServer, withBrowser };
