// Room around the slots × steps picture, in pixels.

export const GUTTER = 34; // slot numbers
export const AXIS = 20; // step numbers
export const FOOT = 12; // arrivals
