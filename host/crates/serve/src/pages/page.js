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

  // Takes the parts of the page from the server, and keeps what the person types.
  const load = async () => {
    const answer = await fetch(location.pathname);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of ["turns", "questions", "controls"]) {
      const [now, next] = [document.getElementById(id), fresh.getElementById(id)];
      if (now && next && now.innerHTML !== next.innerHTML && !now.contains(document.activeElement)) now.replaceWith(next);
    }
    const label = fresh.querySelector("#say > label");
    if (label) document.querySelector("#say > label").textContent = label.textContent;
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
