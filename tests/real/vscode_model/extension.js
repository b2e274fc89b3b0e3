// A language model that asks the test's server for its answers, and a prompt for it once the chat is there.
"use strict";

const fs = require("node:fs");
const vscode = require("vscode");

const SETUP = "workbench.action.chat.triggerSetupAnonymousWithoutDialog"; // enables the chat without an account
const MIN_TOOLS = 4; // requests for a title and the like come with fewer

function describePart(part) {
  if (part instanceof vscode.LanguageModelTextPart) return { text: part.value };
  if (part instanceof vscode.LanguageModelToolCallPart) return { call: part.name, input: part.input };
  if (part instanceof vscode.LanguageModelToolResultPart) {
    return { result: part.content.map(({ value }) => value ?? "").join("") };
  }
  return {};
}

const provider = {
  provideLanguageModelChatInformation() {
    const limits = { maxInputTokens: 100000, maxOutputTokens: 4000 };
    const names = { id: "scripted", name: "Scripted", family: "gpt-4.1", version: "1" };
    return [{ ...names, ...limits, isUserSelectable: true, capabilities: { toolCalling: true } }];
  },

  async provideLanguageModelChatResponse(model, messages, options, progress) {
    const tools = (options.tools ?? []).map((tool) => tool.name);
    const body = {
      messages: messages.map((message) => ({ role: message.role, parts: message.content.map(describePart) })),
      tools: tools.length < MIN_TOOLS ? [] : tools,
    };
    const request = { method: "POST", body: JSON.stringify(body) };
    const reply = await (await fetch(`${process.env.MODEL_URL}/vscode`, request)).json();
    if (reply.text) progress.report(new vscode.LanguageModelTextPart(reply.text));
    for (const { id, tool, input } of reply.calls) {
      progress.report(new vscode.LanguageModelToolCallPart(id, tool, input));
    }
    if (body.tools.length && !reply.calls.length) finish("");
  },

  provideTokenCount(model, text) {
    return Math.ceil((typeof text === "string" ? text : JSON.stringify(text)).length / 4);
  },
};

/** Resolve once a condition holds; the chat comes in several steps, and no event tells of them. */
async function waitFor(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 200));
}

/** Tell the test that the conversation is over, or why there was none. */
function finish(failure) {
  fs.writeFileSync(`${process.env.FINISHED}.new`, JSON.stringify({ failure }));
  fs.renameSync(`${process.env.FINISHED}.new`, process.env.FINISHED);
}

async function run() {
  const hasChat = () => vscode.extensions.getExtension("GitHub.copilot-chat") !== undefined;
  if (!hasChat()) {
    // Its promise is not always kept, but the extension is enabled.
    vscode.commands.executeCommand(SETUP).then(undefined, () => {});
    await waitFor(hasChat);
  }
  await vscode.extensions.getExtension("GitHub.copilot-chat").activate();
  await vscode.commands.executeCommand("workbench.action.chat.open", {
    query: process.env.PROMPT,
    mode: "agent",
    modelSelector: { vendor: "scripted", id: "scripted" },
  });
}

exports.activate = (context) => {
  context.subscriptions.push(vscode.lm.registerLanguageModelChatProvider("scripted", provider));
  // Not awaited: the editor would count the whole conversation as activation.
  run().catch((error) => finish(String(error)));
};
