// Asks the program. Everything but an answer in the known form is an error.
function ask(point, payload) {
  return new Promise((resolve, reject) => {
    const fail = (why) => reject(new Error(`Rind guard: ${why}`));
    const args = [...COMMAND, AGENT, point].concat(HOME ? ["--home", HOME] : []);
    let child;
    try {
      child = spawn(PROGRAM, args, { stdio: ["pipe", "pipe", "pipe"] });
    } catch (error) {
      return fail(`the program cannot be started: ${error.message}`);
    }
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      fail("no answer in time");
    }, DEADLINE_MS);
    const output = [];
    const said = [];
    child.stdout.on("data", (bytes) => output.push(bytes));
    child.stderr.on("data", (bytes) => said.push(bytes));
    child.stdin.on("error", () => {});
    child.on("error", (error) => {
      clearTimeout(timer);
      fail(`the program cannot be started: ${error.message}`);
    });
    child.on("close", (code) => {
      clearTimeout(timer);
      if (code !== 0) {
        const why = Buffer.concat(said).toString().trim().slice(0, 2000);
        return fail(why || `the program ended with ${code}`);
      }
      let answer;
      try {
        answer = JSON.parse(Buffer.concat(output).toString());
      } catch {
        return fail("the program wrote no JSON");
      }
      if (answer?.v !== 1) return fail("the program wrote an unknown answer");
      if (typeof answer.refuse === "string") return reject(new Error(answer.refuse));
      if (answer.pass !== true) return fail("the program wrote no verdict");
      resolve(answer);
    });
    let text;
    try {
      text = JSON.stringify(payload);
    } catch (error) {
      child.kill("SIGKILL");
      return fail(`the call cannot be written as JSON: ${error.message}`);
    }
    child.stdin.end(text);
  });
}

// Puts the fields of another object in place of those of an object, which the agent holds.
function replaceFields(object, fields) {
  for (const key of Object.keys(object)) delete object[key];
  Object.assign(object, fields);
}

function notesText(answer) {
  return Array.isArray(answer.notes) && answer.notes.length > 0 ? "\n" + answer.notes.join("\n") : "";
}
