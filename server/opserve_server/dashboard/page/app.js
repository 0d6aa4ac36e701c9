// The frame of all pages: the address says which one is shown, as in #/runs/ID.
import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { key, restart, setKey, useLive } from "./data.js";
import { Badge, Empty, Failure, Guarded } from "./parts.js";
import { Devices } from "./devices.js";
import { Explorer } from "./explorer.js";
import { Queue } from "./queue.js";
import { Runs } from "./runs.js";
import { Service } from "./service.js";
import { Sessions } from "./sessions.js";
import { Tenants } from "./tenants.js";

const PAGES = [
  ["devices", "Devices", Devices], ["queue", "Queue", Queue], ["runs", "Runs", Runs], ["operators", "Operators", Explorer],
  ["sessions", "Sessions", Sessions], ["tenants", "Tenants", Tenants], ["service", "Service", Service],
];
const STATES = {
  live: ["good", "Live"], connecting: ["", "Connecting"], broken: ["bad", "Not connected"], key: ["warn", "Key needed"],
};

function useAddress() {
  const read = () => location.hash.slice(2).split("/").map(decodeURIComponent);
  const [parts, hold] = useState(read);
  useEffect(() => {
    const changed = () => hold(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parts;
}

function KeyForm({ problem }) {
  const enter = (event) => {
    event.preventDefault();
    setKey(event.target.elements.key.value.trim());
  };
  return html`<section class="key"><h2>This service needs a key</h2>
    ${key() ? html`<${Failure} problem=${problem} />` : html`<p>Every call of the pages sends it. This tab keeps it until you close the tab.</p>`}
    <form onSubmit=${enter}><label>API key <input name="key" type="password" autocomplete="off" required autofocus /></label>
    <button type="submit">Use the key</button></form>
    <p class="hint">An administrator makes one: <code>opserve key create TENANT PRINCIPAL</code></p></section>`;
}

const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function Theme() {
  const [dark, hold] = useState(isDark);
  const change = () => {
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    hold(!dark);
    dispatchEvent(new Event("resize")); // canvases take their colours anew
  };
  return html`<button type="button" onClick=${change}>${dark ? "Light" : "Dark"}</button>`;
}

function App() {
  const live = useLive();
  const [name, ...rest] = useAddress();
  const [chosen, title, Page] = PAGES.find(([page]) => page === name) ?? PAGES[0];
  useEffect(() => {
    document.title = `${title} · opserve`;
    document.querySelector("nav [aria-current]").scrollIntoView({ block: "nearest", inline: "center" });
  }, [title]);
  const [kind, word] = STATES[live.state];
  return html`<a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>Skip to the page</a>
    <header><h1>opserve</h1>
      <nav aria-label="Pages">${PAGES.map(([page, label]) => html`<a href="#/${page}" aria-current=${page === chosen ? "page" : null}>${label}</a>`)}</nav>
      <div class="tools"><span role="status"><${Badge} kind=${kind}>${word}<//></span>
      ${key() && html`<button type="button" onClick=${() => setKey("")}>Forget the key</button>`}<${Theme} /></div></header>
    <main id="content" tabindex="-1">
      ${live.state === "broken" && html`<${Failure} problem=${live.problem} />`}
      ${live.state === "key" ? html`<${KeyForm} problem=${live.problem} />`
        : live.state === "connecting" ? html`<${Empty}>Connecting to the service …<//>`
          : html`<${Guarded} key=${chosen}><${Page} rest=${rest} live=${live} /><//>`}
    </main>`;
}

const theme = new URLSearchParams(location.search).get("theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
restart();
render(html`<${App} />`, document.body);
