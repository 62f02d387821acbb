// Reads issues of GitHub. The token is a credential of the manifest: the host adds it to requests, and this code never sees it.
import { tools as offer, utf8 } from "rind-sdk";
import * as http from "rind-sdk/http";

export const tools = offer({
  github_issue: {
    description: "Reads an issue of a GitHub repository: its title, state, author and text.",
    effect: "external",
    parameters: {
      type: "object",
      properties: {
        repo: { type: "string", description: "Repository, as `owner/name`." },
        number: { type: "integer", minimum: 0, description: "Number of the issue." },
      },
      required: ["repo", "number"],
      additionalProperties: false,
    },
    run({ repo, number }) {
      if (!isRepository(repo)) throw { tag: "invalid-input", val: `\`${repo}\` is no repository; write owner/name` };
      const response = http.send({
        method: "GET",
        url: `https://api.github.com/repos/${repo}/issues/${number}`,
        headers: [
          { name: "accept", value: "application/vnd.github+json" },
          { name: "user-agent", value: "rind-example" },
        ],
        body: new Uint8Array(),
      });
      if (response.status === 404) {
        throw { tag: "not-found", val: `there is no issue ${number} in ${repo}, or the token may not read it` };
      }
      if (response.status !== 200) {
        throw { tag: "failed", val: `GitHub answered ${response.status}: ${reason(response)}` };
      }
      const issue = json(response);
      const about = `${issue.state}, by ${issue.user.login}, ${issue.comments} comments`;
      return `${repo}#${number}: ${issue.title} (${about})\n\n${issue.body ?? "(no text)"}`;
    },
  },
});

/** Two names that cannot lead elsewhere in the address. */
function isRepository(text) {
  const names = text.split("/");
  return names.length === 2 && names.every((name) => /^[A-Za-z0-9._-]+$/.test(name) && name !== "." && name !== "..");
}

/** Reason that GitHub gives when it refuses. */
function reason(response) {
  try {
    return json(response).message ?? "no reason";
  } catch {
    return "no reason";
  }
}

function json(response) {
  return JSON.parse(utf8.decode(response.body));
}
