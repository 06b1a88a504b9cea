// Prints the number of o200k tokens of each text of a JSON array on stdin.
const { countTokens } = require("gpt-tokenizer/encoding/o200k_base");
let input = "";
process.stdin.on("data", (data) => (input += data));
process.stdin.on("end", () => console.log(JSON.stringify(JSON.parse(input).map((text) => countTokens(text)))));
