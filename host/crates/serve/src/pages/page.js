// Follows the events of the session that the page shows. Without it the page is read all the same.
"use strict";
// Images that are pasted into a text become files of its form.
for (const input of document.querySelectorAll("input[type=file]")) {
  input.form.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    const all = new DataTransfer();
    for (const file of [...input.files, ...event.clipboardData.files]) all.items.add(file);
    input.files = all.files;
  });
}
(() => {
  const live = document.getElementById("live");
  if (!live || !live.dataset.session) return;
  const address = `/v1/sessions/${encodeURIComponent(live.dataset.session)}/events?after=${live.dataset.after}`;
  const source = new EventSource(address);
  let text = null;
  let loading = null;
  let running = live.dataset.running !== undefined;

  // Takes the parts of the page from the server, and keeps what the person types.
  const load = async () => {
    const answer = await fetch(location.pathname);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of ["turns", "questions", "controls"]) {
      const [now, next] = [document.getElementById(id), fresh.getElementById(id)];
      if (now && next && now.innerHTML !== next.innerHTML && !now.contains(document.activeElement)) now.replaceWith(next);
    }
    running = fresh.getElementById("live")?.dataset.running !== undefined;
    lookSoon();
    const label = fresh.querySelector("#say > label");
    if (label) document.querySelector("#say > label").textContent = label.textContent;
  };
  // Shows the last lines of the calls that run now, once a second during a turn.
  const outputs = document.getElementById("outputs");
  let looking = null;
  const look = async () => {
    looking = null;
    if (!running) return outputs.replaceChildren();
    let list = [];
    try {
      const answer = await fetch(`/v1/sessions/${encodeURIComponent(live.dataset.session)}/outputs`);
      if (answer.ok) list = (await answer.json()).outputs;
    } catch {
      // The next look may succeed.
    }
    const gone = new Map([...outputs.children].map((part) => [part.dataset.call, part]));
    for (const output of running ? list : []) {
      const key = `${output.agent} ${output.call}`;
      const lines = gone.get(key) ?? document.createElement("pre");
      gone.delete(key);
      lines.textContent = output.lines.join("\n");
      if (lines.isConnected) continue;
      lines.dataset.call = key;
      lines.tabIndex = 0;
      lines.setAttribute("aria-label", `Output of a running call of ${output.agent}`);
      outputs.append(lines);
    }
    for (const part of gone.values()) part.remove();
    lookSoon();
  };
  const lookSoon = () => {
    looking ??= setTimeout(look, 1000);
  };
  const loadSoon = () => {
    loading ??= setTimeout(() => {
      loading = null;
      load();
    }, 200);
  };
  source.addEventListener("text-delta", (event) => {
    const delta = JSON.parse(event.data);
    if (delta.agent !== "main") return;
    if (!text) {
      text = document.createElement("pre");
      text.className = "text";
      live.append(text);
    }
    text.append(delta.text);
  });
  for (const kind of ["turn-start", "turn-end"]) {
    source.addEventListener(kind, (event) => {
      if (JSON.parse(event.data).agent !== "main") return;
      running = kind === "turn-start";
      lookSoon();
    });
  }
  lookSoon();
  const whole = ["turn-start", "message-end", "tool-start", "tool-end", "turn-end", "question", "question-closed", "gap"];
  for (const kind of whole) {
    source.addEventListener(kind, () => {
      if (kind === "message-end" || kind === "turn-end") {
        text?.remove();
        text = null;
      }
      loadSoon();
    });
  }
})();
