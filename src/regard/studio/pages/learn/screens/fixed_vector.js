// One fixed vector: a translator without attention, on a short and on a long sentence.

import { translationTrial } from "./translations.js";

export const mount = (place, context) => translationTrial(place, context, ["fixed"]);
