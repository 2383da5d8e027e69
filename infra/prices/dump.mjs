// Prints the providers of @pydantic/genai-prices, unpacked beside this file, as JSON. The package has no list of them, so
// that their ids are read from its code and each is asked for.
import fs from 'node:fs';
import { findProvider } from './package/dist/index.js';

const code = fs.readFileSync(new URL('./package/dist/index.js', import.meta.url), 'utf8');
const ids = new Set([...code.matchAll(/\bid: ?"([a-z0-9_:-]+)"/g)].map((match) => match[1]));
const providers = [...ids].map((id) => findProvider({ providerId: id })).filter((found) => found && ids.has(found.id));
const unique = [...new Map(providers.map((provider) => [provider.id, provider])).values()];
process.stdout.write(JSON.stringify(unique));
