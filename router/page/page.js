"use strict";
// The page of a Lockstep router. Everything that comes from elsewhere is shown as text, never as HTML.

const byId = (id) => document.getElementById(id);
const POLL_MS = 2000;
const KEY = "lockstep-key";

let messages = [];  // of the chat API, but for the system's
let running = null;  // AbortController of the answer that comes now

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// --- asking the server ---

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: "Bearer " + key } : {};
}

async function ask(path, options = {}) {
  const response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
  if (response.ok) return response;
  if (response.status === 401) byId("key-form").hidden = false;
  const body = await response.json().catch(() => null);
  throw new Error(body?.error?.message ?? "the server answered " + response.status);
}

function showError(error) {
  byId("error").textContent = error ? String(error.message ?? error) : "";
  byId("error").hidden = !error;
}

async function showModel() {
  try {
    const models = await (await ask("v1/models")).json();
    byId("model").textContent = models.data[0]?.id ?? "";
    byId("key-form").hidden = true;
    showError(null);
  } catch (error) {
    showError(error);
  }
}

// --- the chat ---

function settings() {
  const body = { stream: true, stream_options: { include_usage: true } };
  for (const name of ["temperature", "top_p", "max_tokens", "seed"]) {
    if (byId(name).value !== "") body[name] = Number(byId(name).value);
  }
  if (byId("logprobs").checked) Object.assign(body, { logprobs: true, top_logprobs: 5 });
  const system = byId("system").value.trim();
  body.messages = system ? [{ role: "system", content: system }, ...messages] : messages;
  return body;
}

function addMessage(role, text) {
  const element = make("article", "message " + role, text);
  byId("messages").append(element);
  element.scrollIntoView({ block: "end" });
  return element;
}

// Calls `take` with each JSON object of a stream of server-sent events.
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "))?.slice(6);
      if (data && data !== "[DONE]") take(JSON.parse(data));
    }
  }
}

// Words with their probabilities: text that comes without any is shown all the same.
function addText(element, choice) {
  const thought = choice.delta?.reasoning_content ?? "";
  if (thought) element.append(make("span", "reasoning", thought));
  const text = choice.delta?.content ?? "";
  const tokens = choice.logprobs?.content ?? [];
  if (tokens.map((token) => token.token).join("") !== text) {
    element.append(text);
    return text;
  }
  for (const token of tokens) {
    const span = make("span", "token", token.token);
    span.tabIndex = -1;
    span.lockstep = token;
    element.append(span);
  }
  return text;
}

async function answer() {
  const element = addMessage("assistant", "");
  const start = performance.now();
  let text = "", finish = null, usage = null, first = null;
  running = new AbortController();
  setRunning(true);
  try {
    const response = await ask("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(settings()),
      signal: running.signal,
    });
    await readEvents(response, (event) => {
      if (event.error) throw new Error(event.error.message);
      usage = event.usage ?? usage;
      for (const choice of event.choices ?? []) {
        first ??= performance.now();
        text += addText(element, choice);
        finish = choice.finish_reason ?? finish;
      }
      element.scrollIntoView({ block: "end" });
    });
  } catch (error) {
    if (error.name === "AbortError") finish = "stopped";
    else showError(error);
  }
  setRunning(false);
  running = null;
  showEnd(element, finish, usage, (performance.now() - (first ?? start)) / 1000);
  if (text) messages.push({ role: "assistant", content: text });
  else if (finish === null) element.remove();
}

function showEnd(element, finish, usage, seconds) {
  if (finish === "length") element.append(make("span", "note", "Cut off: it has the most tokens that you asked for."));
  if (finish === "stopped") element.append(make("span", "note", "Stopped."));
  if (!usage) return;
  const count = usage.completion_tokens;
  const speed = count > 1 ? ", " + ((count - 1) / seconds).toFixed(1) + " tokens/s" : "";
  byId("speed").textContent = count + " tokens" + speed;
}

function setRunning(isRunning) {
  byId("send").disabled = isRunning;
  byId("stop").hidden = !isRunning;
  byId("new").disabled = isRunning;
  if (isRunning) byId("speed").textContent = "";
}

function send() {
  const text = byId("question").value.trim();
  if (!text || running) return;
  byId("question").value = "";
  showError(null);
  messages.push({ role: "user", content: text });
  addMessage("user", text);
  answer();
}

// --- probabilities of a token ---

function showTip(span) {
  const tip = byId("tip");
  const token = span.lockstep;
  const others = token.top_logprobs.filter((other) => other.token !== token.token);
  tip.replaceChildren();
  for (const entry of [token, ...others].sort((a, b) => b.logprob - a.logprob)) {
    const line = make("div", entry === token ? "chosen" : "");
    const percent = (100 * Math.exp(entry.logprob)).toFixed(2) + " %";
    line.append(make("span", "", JSON.stringify(entry.token)), make("span", "", percent));
    tip.append(line);
  }
  tip.hidden = false;
  const place = span.getBoundingClientRect();
  const left = Math.min(place.left, innerWidth - tip.offsetWidth - 8);
  const below = place.bottom + 6 + tip.offsetHeight < innerHeight;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (below ? place.bottom + 6 : place.top - tip.offsetHeight - 6) + "px";
}

function followTokens(event) {
  if (event.target.lockstep) showTip(event.target);
  else byId("tip").hidden = true;
}

// --- the status ---

function drawShape(values, top, className, bases) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const x = (i) => (values.length > 1 ? (100 * i) / (values.length - 1) : 100);
  const y = (value) => 100 - (96 * value) / top;
  const upper = values.map((value, i) => x(i) + " " + y(value + bases[i]));
  const lower = bases.map((base, i) => x(i) + " " + y(base)).reverse();
  path.setAttribute("d", "M" + upper.concat(lower).join("L") + "Z");
  path.setAttribute("class", className);
  return path;
}

// Two series, one upon the other.
function drawChart(title, unit, series, names, top) {
  const figure = make("figure");
  const caption = make("figcaption");
  caption.append(make("strong", "", title));
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title + " over the last minutes");
  const sums = series[0].map((value, i) => value + series[1][i]);
  const highest = top ?? Math.max(1, ...sums);
  let bases = series[0].map(() => 0);
  series.forEach((values, i) => {
    const className = i === 0 ? "first" : "second";
    svg.append(drawShape(values, highest, className, bases));
    const last = values.at(-1) ?? 0;
    caption.append(make("span", className, names[i] + " " + Math.round(last) + unit));
    bases = bases.map((base, j) => base + values[j]);
  });
  figure.append(caption, svg);
  return figure;
}

function drawCharts(samples) {
  const perSecond = (values) => values.map((value) => (1000 * value) / samples.interval_ms);
  const share = (values) => values.map((value, i) => (100 * value) / Math.max(1, samples.kv_total[i]));
  byId("charts").replaceChildren(
    drawChart("Requests", "", [samples.running, samples.waiting], ["running", "waiting"]),
    drawChart("Tokens a second", "", [perSecond(samples.prefill_tokens), perSecond(samples.decode_tokens)],
      ["prefill", "decode"]),
    drawChart("KV cache", " %", [share(samples.kv_used), share(samples.kv_cached)], ["used", "cached"], 100));
}

function fill(id, rows) {
  byId(id).tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell) => make("td", "", String(cell))));
    return row;
  }));
}

function showStatus(status) {
  const isFleet = status.scope === "fleet";
  byId("charts").hidden = byId("replica-section").hidden = !isFleet;
  byId("status-note").textContent = "Lockstep " + status.version + " (" + status.commit + ")" +
    (isFleet ? "" : ": your own requests");
  if (isFleet) {
    drawCharts(status.samples);
    const blocks = (replica, state) => [replica.kv_blocks, ...(replica.further_kv_groups ?? [])]
      .map((group) => group[state]).join(" + ");
    fill("replicas", status.replicas.map((replica) => [replica.worker, replica.state, replica.running, replica.waiting,
      blocks(replica, "used"), blocks(replica, "cached"), blocks(replica, "free")]));
  }
  const seconds = (ms) => (ms === null ? "" : (ms / 1000).toFixed(2));
  fill("requests", status.requests.map((request) => [request.id, request.state, seconds(request.age_ms),
    seconds(request.first_token_ms), request.prompt_tokens, request.output_tokens]));
}

async function poll() {
  if (byId("status").hidden || document.hidden) return;
  try {
    showStatus(await (await ask("status.json")).json());
  } catch (error) {
    byId("status-note").textContent = error.message;
  }
}

function show(view) {
  for (const name of ["chat", "status"]) {
    byId(name).hidden = name !== view;
    byId("show-" + name).setAttribute("aria-pressed", String(name === view));
  }
  poll();
}

// --- what people do ---

byId("show-chat").addEventListener("click", () => show("chat"));
byId("show-status").addEventListener("click", () => show("status"));
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("new").addEventListener("click", () => {
  messages = [];
  byId("messages").replaceChildren();
  byId("speed").textContent = "";
  showError(null);
  byId("question").focus();
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, byId("key").value);
  byId("key").value = "";
  showModel();
  poll();
});
document.addEventListener("mouseover", followTokens);
document.addEventListener("visibilitychange", poll);
setInterval(poll, POLL_MS);
showModel();
byId("question").focus();
